"""Metadata that this release does not know or cannot read are logged for the operator."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

import structlog

from replog.config.processes import AlterableBrokerConfig, ClientQuota
from replog.config.settings import Settings
from replog.config.topic import TopicConfig
from replog.metadata.changes import KINDS, Change, Kind
from replog.metadata.image import MetadataImage
from replog.metadata.records import change_of
from replog.rpc.v1.metadata_pb2 import MetadataRecord
from replog.server.logging import log_each

log = structlog.get_logger()

_MODELS: Mapping[Kind, type[Settings]] = {
    "topic": TopicConfig,
    "broker_config": AlterableBrokerConfig,
    "client_quota": ClientQuota,
}
_EVENT = "settings that this release cannot read do not count; --delete-config takes them away"


def read_record(record: MetadataRecord) -> Change:
    """Return the change of a record. A kind that only a later release knows is logged, once. Raises as `change_of`."""
    change = change_of(record)
    if change.kind not in KINDS:
        _log_kind(change.kind.partition("/")[0][:100])
    return change


@lru_cache(100)
def _log_kind(kind: str) -> None:
    log.warning("the metadata have what only a later release knows, or nobody; this broker passes it over", kind=kind)


def log_odd_settings(changes: Iterable[Change]) -> None:
    """Log a line for each topic, broker and user with settings that cannot be read."""
    odd = [
        {kind: name, "settings": list(unreadable)}
        for kind, name, value, _, _ in changes
        if value is not None
        and (model := _MODELS.get(kind))
        and (unreadable := model.unreadable(value.configs if kind == "topic" else value))
    ]
    log_each(log.error, _EVENT, odd)


def in_image(image: MetadataImage) -> Iterable[Change]:
    """Yields everything that has settings, as changes."""
    yield from (Change("topic", name, topic) for name, topic in image.topics.items())
    yield from (Change("broker_config", broker_id, configs) for broker_id, configs in image.broker_configs.items())
    yield from (Change("client_quota", user, configs) for user, configs in image.client_quotas.items())
