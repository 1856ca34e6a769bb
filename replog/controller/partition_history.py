"""The last changes of each partition, with their reasons: for people who ask what happened. In memory, bounded, pure.

Nothing is decided by it, and nothing of it is durable: after a restart, or on another controller, it is empty."""

from collections import OrderedDict, deque
from collections.abc import Iterable
from itertools import islice, takewhile
from typing import NamedTuple

from replog.metadata.values import PartitionState
from replog.topic import TopicPartition

OF_EACH = 20  # changes of one partition
OF_ALL = 20_000  # changes of all partitions; some 12 MB


class PartitionChange(NamedTuple):
    version: int  # the metadata version that it made
    at_ms: int  # wall time
    topic_partition: TopicPartition
    reason: str
    before: PartitionState
    after: PartitionState


class PartitionHistory:
    """The newest changes of each partition. Its creation is not one, and its deletion forgets them."""

    def __init__(self) -> None:
        self._changes: OrderedDict[int, PartitionChange] = OrderedDict()
        self._versions: dict[TopicPartition, deque[int]] = {}

    def add(self, change: PartitionChange) -> None:
        """Keep a change. Changes come in version order."""
        versions = self._versions.setdefault(change.topic_partition, deque())
        versions.append(change.version)
        self._changes[change.version] = change
        if len(versions) > OF_EACH:
            del self._changes[versions.popleft()]
        if len(self._changes) > OF_ALL:
            _, oldest = self._changes.popitem(last=False)
            versions = self._versions[oldest.topic_partition]
            versions.popleft()
            if not versions:
                del self._versions[oldest.topic_partition]

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            for version in self._versions.pop(tp, ()):
                del self._changes[version]

    def after(self, version: int, limit: int) -> list[PartitionChange]:
        """Return the oldest `limit` changes after this version, in order."""
        newer = deque(takewhile(lambda change: change.version > version, reversed(self._changes.values())))
        return list(islice(reversed(newer), limit))
