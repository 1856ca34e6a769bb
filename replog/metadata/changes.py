"""Changes of the cluster's metadata as plain values: what the controller decides and every image applies."""

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice, takewhile
from typing import Any, Literal, NamedTuple, cast, get_args

from replog.topic import TopicPartition

Kind = Literal[
    "cluster",
    "broker",
    "broker_config",
    "topic",
    "partition",
    "producer_ids",
    "acl",
    "client_quota",
    "collected",
    "lineage",
    "audit",
]
KINDS = frozenset(get_args(Kind))


class Change(NamedTuple):
    """A new value of one thing, or its deletion. `key` names it in stores and on the wire.

    A topic that is deleted takes its partitions along, as with Kafka's RemoveTopicRecord: there are no deletions of
    partitions."""

    kind: Kind
    name: Any  # None where there is only one of the kind
    value: Any  # None means deleted
    topic_id: bytes = b""  # set for a partition
    version: int = 0  # the version of the metadata with this change; 0 before it is numbered

    @property
    def key(self) -> str:
        return key_of(self.kind, self.name)


def key_of(kind: Kind, name: Any) -> str:
    if kind == "partition":
        return f"{partitions_key(name.topic)}{name.partition}"
    noun = kind.replace("_", "-")
    return noun if name is None else f"{noun}/{name}"


def partitions_key(topic: str) -> str:
    """Return the prefix of the keys of the topic's partitions. It ends in "/", which no key does."""
    return f"partition/{topic}/"


def parse_key(key: str) -> tuple[Kind, Any]:
    """Split a key into the kind and the name that `key_of` joined. A key of a later release is a kind of its own."""
    noun, _, name = key.partition("/")
    kind = cast(Kind, noun.replace("-", "_"))
    with suppress(ValueError):  # otherwise a broken number in a key of a later release stops its readers
        if kind == "partition":
            topic, _, partition = name.rpartition("/")
            return kind, TopicPartition(topic, int(partition))
        if kind in KINDS:
            return kind, int(name) if kind in ("broker", "broker_config") else name or None
    return cast(Kind, key), None


class Tombstones:
    """A deletion stays until a `collected` change says that all watchers know it, or its key is set again."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}  # oldest first

    def put(self, change: Change) -> None:
        """Take in a change. Changes come in version order."""
        if self._versions:
            self._versions.pop(change.key, None)
        if change.kind == "collected":
            for key in self.up_to(change.value):
                del self._versions[key]
        elif change.value is None:
            self._versions[change.key] = change.version

    def up_to(self, version: int, limit: int | None = None) -> Mapping[str, int]:
        """Return the keys and versions of deletions up to `version`, oldest first, at most `limit`."""
        return dict(islice(takewhile(lambda item: item[1] <= version, self._versions.items()), limit))
