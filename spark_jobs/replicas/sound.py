"""The shared part of the short ways through a segment: numpy layouts, and checks of indexes and epochs.

Any fault raises `NotSound`, and the long way reports it.
"""

from typing import Any

import numpy as np

from replog.log.files.names import DIGEST_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX
from replog.log.formats.batch import HEADER, BatchHeader
from replog.log.indexes.entries import IndexFile
from replog.log_tools.checker.indexes import open_index
from spark_jobs.replicas.files import EpochCheckpoint, ReplicaSegment

Array = np.ndarray[Any, np.dtype[Any]]

HEADER_LAYOUT = np.dtype([*zip(BatchHeader._fields, (f">{code}" for code in HEADER.format[1:]), strict=True)])
INDEX_LAYOUTS = {
    INDEX_SUFFIX: np.dtype([("offset", ">i4"), ("position", ">i4")]),
    TIME_INDEX_SUFFIX: np.dtype([("timestamp", ">i8"), ("offset", ">i4")]),
    DIGEST_SUFFIX: np.dtype([("offset", ">u4"), ("digest", ">u8")]),
}


class NotSound(Exception):
    """Something is wrong, or less simple than usual, so that the short way gives up."""


def require(sound: object) -> None:
    if not sound:
        raise NotSound


def check_epochs(checkpoint: EpochCheckpoint, log_start: int, epochs: Array, bases: Array, lasts: Array) -> None:
    """INV-15: check the epochs of batches, from their bases to their lasts, against the epoch checkpoint."""
    if checkpoint.fault is not None or not checkpoint.entries:
        return
    begin = max(log_start, checkpoint.begin)
    known, starts = np.array(checkpoint.entries, np.int64).T
    hidden = lasts < begin
    require(not (hidden & (lasts >= log_start) & (lasts == begin - 1) & (epochs < known[0])).any())
    for offsets in (np.maximum(bases, begin), lasts):
        at = np.searchsorted(starts, offsets, "right") - 1
        require((hidden | ((at >= 0) & (known[at] == epochs))).all())


def check_beside(offsets: Array, digests: Array) -> None:
    """Check that each offset entry up to the last digest has a digest entry; later ones may be Kafka's."""
    require(np.isin(offsets[offsets <= digests.max(initial=-1)], digests, assume_unique=True).all())


class SoundIndex:
    """The entries of an index file; `seen` counts those whose batches were checked."""

    def __init__(self, segment: ReplicaSegment, suffix: str) -> None:
        layout = INDEX_LAYOUTS[suffix]
        self.present, self.seen, self.seen_positions = True, 0, 0
        raw = b""
        try:
            with open_index(segment, suffix) as file:
                index = IndexFile(file, suffix)
                require(not index.surplus)
                raw = b"" if index.is_doubtful else b"".join(index.pieces())
        except FileNotFoundError:
            self.present = False
        stored = np.frombuffer(raw, layout)
        native = [(name, np.uint64 if name == "digest" else np.int64) for name in layout.names or ()]
        self.entries = stored.astype(native)
        self.entries["offset"] += segment.base
        self._check_order(suffix, segment.base)

    @property
    def last_offset(self) -> int:
        """The offset of the last entry; -1 if there is none."""
        return int(self.entries["offset"][-1]) if len(self.entries) else -1

    def _check_order(self, suffix: str, base: int) -> None:
        offsets = self.entries["offset"]
        require((offsets >= base).all() and (offsets[1:] >= offsets[:-1]).all())
        growing = {INDEX_SUFFIX: ("offset", "position"), TIME_INDEX_SUFFIX: ("timestamp",), DIGEST_SUFFIX: ("offset",)}
        for name in growing[suffix]:
            require((self.entries[name][1:] > self.entries[name][:-1]).all())
        require(suffix != INDEX_SUFFIX or (self.entries["position"] >= 0).all())

    def find(self, firsts: Array, lasts: Array) -> tuple[Array, Array]:
        """Return the next entries up to the last of these batches, and the number of each one's batch.

        An entry for a batch has an offset from its `firsts` to its `lasts`.
        """
        offsets = self.entries["offset"]
        until = int(np.searchsorted(offsets, lasts[-1], "right"))
        entries = self.entries[self.seen : until]
        self.seen = until
        at = np.searchsorted(lasts, entries["offset"])
        require((firsts[at] <= entries["offset"]).all())
        return entries, at

    def until_position(self, position: int) -> Array:
        """Return the next entries by position, up to `position`."""
        until = int(np.searchsorted(self.entries["position"], position, "right"))
        entries = self.entries[self.seen_positions : until]
        self.seen_positions = until
        return entries
