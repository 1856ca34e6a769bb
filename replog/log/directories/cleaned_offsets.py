"""`cleaner-offset-checkpoint`: the offset below which each compacted log of a directory is clean (1.3, CL-1)."""

from collections.abc import Collection
from contextlib import AbstractContextManager
from pathlib import Path

from replog.log.formats.checkpoint import OffsetCheckpoint
from replog.topic import TopicPartition


class CleanedOffsets:
    """The offsets in memory and on disk. A lost entry costs one more cleaning. An entry that is too high would bring
    old values of deleted keys back. So entries are lowered durably, and raised only after the swaps are durable."""

    def __init__(self, path: Path, lock: AbstractContextManager[bool]) -> None:
        """A thread that writes the file holds the `lock`."""
        self._checkpoint = OffsetCheckpoint(path)
        self._offsets: dict[TopicPartition, int] = {}
        self._writing = lock

    def load(self) -> None:
        """Read the file. Raises DamagedCheckpoint."""
        self._offsets = self._checkpoint.read()

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        """Drop all other partitions' entries durably: a new replica may get such a name."""
        kept = {tp: offset for tp, offset in self._offsets.items() if tp in partitions}
        if len(kept) < len(self._offsets):
            self._offsets = kept
            self.write()

    def get(self, tp: TopicPartition) -> int | None:
        return self._offsets.get(tp)

    def raise_to(self, tp: TopicPartition, offset: int) -> None:
        """A cleaning has reached `offset`; `write` makes that durable."""
        self._offsets[tp] = offset

    def lower_to(self, tp: TopicPartition, offset: int) -> None:
        """The log was truncated to a segment that begins there. Durable if the log was clean beyond."""
        if self._offsets.get(tp, 0) > offset:
            self._offsets[tp] = offset
            self.write()

    def forget(self, tp: TopicPartition) -> None:
        """The replica is deleted. Durable: a new one may get its name."""
        if self._offsets.pop(tp, None) is not None:
            self.write()

    def write(self) -> None:
        """Make the entries durable, in any thread."""
        with self._writing:
            self._checkpoint.write(dict(self._offsets))
