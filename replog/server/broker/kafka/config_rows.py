"""Settings as DescribeConfigs shows them: value, source, type, synonyms. Models say what a setting may be."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic_core import PydanticUndefined

from replog.config.processes import AlterableBrokerConfig, BrokerConfig
from replog.config.properties import MAX_INT
from replog.config.settings import Settings
from replog.config.topic import TopicConfig
from replog.kafka.messages import DescribeConfigsResponseConfig as Row
from replog.kafka.messages import DescribeConfigsResponseSynonym as Synonym

LISTS = {"cleanup.policy", "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
BOOLEAN, STRING, INT, _, LONG, DOUBLE, LIST = range(1, 8)  # Kafka's types of values
DYNAMIC_TOPIC, DYNAMIC_BROKER, _, STATIC_BROKER, DEFAULT = range(1, 6)  # sources of values

A_TOPIC, A_BROKER = 2, 4  # Kafka's types of resources; the others: brokers' loggers, client metrics, groups
RESOURCES = {A_TOPIC, A_BROKER, 8, 16, 32}

Models = tuple[type[Settings], ...]
Layers = Sequence[tuple[int, Mapping[str, str | None]]]
More = tuple[bool, bool]  # True: with synonyms; True: with documentation
TOPIC: Models = (TopicConfig,)
BROKER: Models = (BrokerConfig, AlterableBrokerConfig)


class Setting(NamedTuple):
    kind: int
    default: str | None


def config_rows(models: Models, layers: Layers, wanted: Sequence[str], more: More) -> Sequence[Row]:
    """Return a row for each setting that is wanted, or else of all that exist or are stored. `layers` are what is set,
    the first counts first; where nothing is, the default counts."""
    unset = _unset(models, more)
    is_set = {name for _, values in layers for name in values}
    return [
        _row(models, name, layers, more) if name in is_set else unset[name]
        for name in dict.fromkeys(wanted or [*unset, *sorted(is_set)])
        if name in is_set or name in unset
    ]


@lru_cache(maxsize=16)
def _unset(models: Models, more: More) -> Mapping[str, Row]:
    """Return the rows of settings that nobody has set: all topics share them."""
    return {name: _row(models, name, (), more) for name in settings_of(models)}


def _row(models: Models, name: str, layers: Layers, more: More) -> Row:
    synonyms, documentation = more
    setting = settings_of(models).get(name, Setting(STRING, None))  # a later release's
    said = [(name, values[name], source) for source, values in layers if name in values]
    if setting.default is not None:
        said.append((name, setting.default, DEFAULT))
    _, value, source = said[0] if said else (name, None, DEFAULT)
    return Row(
        name=name,
        value=value,
        read_only=models is BROKER and name not in settings_of((AlterableBrokerConfig,)),
        config_source=source,
        is_sensitive=False,  # no setting is a secret: they name files that have some
        synonyms=[Synonym(*each) for each in said] if synonyms else (),
        config_type=setting.kind,
        documentation="docs/settings.md of replog says what it means" if documentation else None,
    )


@lru_cache(maxsize=8)
def settings_of(models: Models) -> Mapping[str, Setting]:
    """Return the settings of models by name."""
    known = {}
    for model in models:
        schema = model.model_json_schema()["properties"]
        for field, info in model.model_fields.items():
            name = info.alias or field
            known[name] = Setting(_kind(name, schema[name]), shown(info.default))
    return known


def _kind(name: str, schema: Mapping[str, Any]) -> int:
    integer = INT if schema.get("maximum", 0) <= MAX_INT else LONG
    kinds = {"boolean": BOOLEAN, "integer": integer, "number": DOUBLE}
    return LIST if name in LISTS else kinds.get(schema.get("type", ""), STRING)


def shown(value: Any) -> str | None:
    """Return a value as Kafka writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return None if value in (None, PydanticUndefined) else ",".join(value) if isinstance(value, tuple) else str(value)
