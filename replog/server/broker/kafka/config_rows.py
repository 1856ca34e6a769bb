"""Settings as DescribeConfigs shows them: value, source, type, synonyms. Models say what a setting may be."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic_core import PydanticUndefined

from replog.config.processes import AlterableBrokerConfig, BrokerConfig
from replog.config.properties import MAX_INT
from replog.config.settings import Settings
from replog.config.topic import TopicConfig
from replog.kafka import messages

LISTS = {"cleanup.policy", "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
BOOLEAN, STRING, INT, _, LONG, DOUBLE, LIST = range(1, 8)  # Kafka's types of values
DYNAMIC_TOPIC, DYNAMIC_BROKER, _, STATIC_BROKER, DEFAULT = range(1, 6)  # sources of values

Models = tuple[type[Settings], ...]
Layers = Sequence[tuple[int, Mapping[str, str | None]]]
TOPIC: Models = (TopicConfig,)
BROKER: Models = (BrokerConfig, AlterableBrokerConfig)


class Resource(IntEnum):
    """The type of a thing that has settings, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


RESOURCES = frozenset(Resource)


class Setting(NamedTuple):
    kind: int
    default: str | None


def config_rows(
    models: Models, layers: Layers, wanted: Sequence[str], synonyms: bool, documentation: bool
) -> list[messages.DescribeConfigsResponseConfig]:
    """Return a row for each setting that is wanted, or else of all that exist or are stored. `layers` are what is set,
    the first counts first; where nothing is, the default counts."""
    unset = _unset(models, synonyms, documentation)
    is_set = {name for _, values in layers for name in values}
    return [
        _row(models, name, layers, synonyms, documentation) if name in is_set else unset[name]
        for name in dict.fromkeys(wanted or [*unset, *sorted(is_set)])
        if name in is_set or name in unset
    ]


@lru_cache(maxsize=16)
def _unset(models: Models, synonyms: bool, documentation: bool) -> Mapping[str, messages.DescribeConfigsResponseConfig]:
    """Return the rows of settings that nobody has set: all topics share them."""
    return {name: _row(models, name, (), synonyms, documentation) for name in settings_of(models)}


def _row(
    models: Models, name: str, layers: Layers, synonyms: bool, documentation: bool
) -> messages.DescribeConfigsResponseConfig:
    setting = settings_of(models).get(name, Setting(STRING, None))  # a later release's
    said = [(name, values[name], source) for source, values in layers if name in values]
    if setting.default is not None:
        said.append((name, setting.default, DEFAULT))
    _, value, source = said[0] if said else (name, None, DEFAULT)
    return messages.DescribeConfigsResponseConfig(
        name=name,
        value=value,
        read_only=models is BROKER and name not in settings_of((AlterableBrokerConfig,)),
        config_source=source,
        is_sensitive=False,  # no setting is a secret: they name files that have some
        synonyms=[messages.DescribeConfigsResponseSynonym(*each) for each in said] if synonyms else (),
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
