"""A log as a list of batches, which the checks compare instead of bytes."""

from bisect import bisect_right
from collections.abc import Iterable


class KnownBatch:
    """One batch: a single object for each (leader epoch, base offset), shared by all logs that hold it (INV-13).

    Two logs that share a batch hold the same bytes from the later of their starts to the end of that batch."""

    __slots__ = ("base", "crc", "epoch", "next", "previous")

    def __init__(self, base: int, following: int, epoch: int, crc: int, previous: "KnownBatch | None") -> None:
        self.base = base
        self.next = following  # the offset after its last
        self.epoch = epoch
        self.crc = crc
        self.previous = previous  # None: no log has shown yet which batch lies before it

    def __repr__(self) -> str:
        return f"{self.epoch}:{self.base}-{self.next - 1} (crc {self.crc:08x})"


class Chain:
    """Batches in the order of their offsets, and the leader epochs' starts that follow from them."""

    __slots__ = ("_bases", "batches", "runs")

    def __init__(self) -> None:
        self.batches: list[KnownBatch] = []
        self.runs: list[tuple[int, int]] = []  # (epoch, base offset of its first batch)
        self._bases: list[int] = []

    @property
    def last(self) -> KnownBatch | None:
        return self.batches[-1] if self.batches else None

    def append(self, batch: KnownBatch) -> None:
        if not self.runs or self.runs[-1][0] != batch.epoch:
            self.runs.append((batch.epoch, batch.base))
        self.batches.append(batch)
        self._bases.append(batch.base)

    def cut(self, count: int) -> None:
        """Keep the first `count` batches."""
        del self.batches[count:], self._bases[count:]
        end = self._bases[-1] if self._bases else -1
        while self.runs and self.runs[-1][1] > end:
            self.runs.pop()

    def at(self, offset: int) -> KnownBatch | None:
        """Return the batch that holds `offset`, or None."""
        slot = bisect_right(self._bases, offset) - 1
        if slot >= 0 and (batch := self.batches[slot]).next > offset:
            return batch
        return None

    def slot_from(self, offset: int) -> int:
        """Return the index of the batch that holds `offset`, or of the next one."""
        slot = bisect_right(self._bases, offset)
        return slot - 1 if slot > 0 and self.batches[slot - 1].next > offset else slot

    def __str__(self) -> str:
        """Show the offsets of each epoch, as in `0:0-4 1:5-9`; `∅` if there are none."""
        parts: list[list[int]] = []
        for batch in self.batches:
            if parts and parts[-1][0] == batch.epoch and parts[-1][2] == batch.base - 1:
                parts[-1][2] = batch.next - 1
            else:
                parts.append([batch.epoch, batch.base, batch.next - 1])
        return " ".join(f"{epoch}:{first}-{last}" for epoch, first, last in parts) or "∅"


def cache_text(entries: Iterable[tuple[int, int]]) -> str:
    """Show epochs with their start offsets, as in `(0@0)(1@5)`."""
    return "".join(f"({epoch}@{start})" for epoch, start in entries) or "∅"
