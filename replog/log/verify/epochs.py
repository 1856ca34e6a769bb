"""The leader epoch checkpoint against the batches: it says of each offset what the batch there says (EP-1)."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path

from replog.log.batch import BatchHeader
from replog.log.checkpoint import DamagedCheckpoint
from replog.log.epoch_cache import EpochEntry, LeaderEpochCache
from replog.log.offsets import NO_EPOCH
from replog.log.verify.findings import Finding, Kind

_start = itemgetter(1)


class EpochCheck:
    """A run of batches that disagree is one finding. Without usable entries nothing is asserted of batches."""

    def __init__(self, path: Path, entries: Sequence[EpochEntry] | None) -> None:
        self.log_start = 0  # of what lies below, the checkpoint says nothing (EP-5)
        self.flushed: int | None = None  # from there on it may not say yet what the batches say; None: it says all
        self._path = path
        self._entries = entries
        self._disagrees: Kind | None = None  # how the last batch did
        self._first_seen: int | None = None  # the first batch with an epoch

    @classmethod
    def load(cls, path: Path) -> tuple["EpochCheck", list[Finding]]:
        """The check, and what is wrong with the file itself. Raises LogStorageError."""
        try:
            return cls(path, LeaderEpochCache.load(path).entries), []
        except DamagedCheckpoint as damage:
            return cls(path, None), [Kind.MALFORMED.at(path, damage.message)]

    @property
    def first_offset(self) -> int:
        """Where the first epoch begins; 0 if there is none."""
        return self._entries[0][1] if self._entries else 0

    def see(self, log: Path, position: int, header: BatchHeader) -> Iterator[Finding]:
        """A batch whose header can be trusted."""
        epoch = header.leader_epoch
        if header.last_offset < self.log_start:
            return
        if self._first_seen is None and epoch != NO_EPOCH:
            self._first_seen = header.base_offset
        if not self._entries:
            return
        said = {self._epoch_at(max(header.base_offset, self.log_start)), self._epoch_at(header.last_offset)}
        kind = None if said == {epoch} else Kind.EPOCHS
        if kind is not self._disagrees and self._may_lag(header.base_offset) and max(said) < epoch:
            kind = Kind.EPOCHS_BEHIND  # except in a run that began as a fault
        if kind not in (None, self._disagrees):
            words = " and ".join("none" if one == NO_EPOCH else str(one) for one in sorted(said))
            found = f"leader epoch {words}, and the batch at {position} of {log.name} has {epoch}"
            yield kind.at(self._path, found, offset=header.base_offset)
        self._disagrees = kind

    def _may_lag(self, offset: int) -> bool:
        """Whether the epoch of a batch there need not be in the file yet: it is durable with the batch (EP-9)."""
        return self.flushed is not None and offset >= self.flushed

    def _epoch_at(self, offset: int) -> int:
        entries = self._entries or ()
        slot = bisect_right(entries, offset, key=_start) - 1
        return entries[slot][0] if slot >= 0 else NO_EPOCH

    def finish(self, end_offset: int) -> Iterator[Finding]:
        """The log ends before `end_offset`: at it a leader's newest epoch may begin (EP-3), beyond it none."""
        if self._entries is None:
            return
        if not self._entries and self._first_seen is not None:
            kind = Kind.EPOCHS_BEHIND if self._may_lag(self._first_seen) else Kind.EPOCHS
            yield kind.at(self._path, "no leader epoch, and the batches have some")
        for epoch, start in self._entries:
            if start > end_offset:
                found = f"epoch {epoch} begins at {start}, and the log ends at {end_offset}"
                yield Kind.EPOCHS_AHEAD.at(self._path, found, offset=start)
