"""Checks the leader epoch checkpoint of one partition: by itself, and against the batches."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from replog.log.epochs import EpochEntry, LeaderEpochCache
from replog.log.formats.batch import BatchHeader
from replog.log.formats.checkpoint import LEADER_EPOCH_CHECKPOINT, DamagedCheckpoint
from replog.log.offsets import NO_EPOCH
from replog.log_tools.checker.epochs import EpochChecker, EpochRun
from replog.log_tools.checker.findings import Finding, Kind


def read_epochs(path: Path) -> tuple[Sequence[EpochEntry] | None, list[Finding]]:
    """Return the entries, None if they cannot be read, and the faults of the file itself. Raises LogStorageError."""
    try:
        return LeaderEpochCache.load(path).entries, []
    except DamagedCheckpoint as damage:
        return None, [Kind.MALFORMED.at(path, damage.message)]


class EpochsVerified:
    """Checks the batches of all segments in order. A run of batches that disagree is one finding."""

    def __init__(
        self,
        directory: Path,
        entries: Sequence[EpochEntry] | None,
        log_start: int,
        *,
        unclean: bool,
        flushed: int | None,
    ) -> None:
        self._path = directory / LEADER_EPOCH_CHECKPOINT
        self._entries = entries
        self._log_start = log_start
        self._flushed = flushed
        self._checker = EpochChecker(entries or (), log_start, unclean=unclean, flushed=flushed)
        self._first_seen: int | None = None  # the first batch with an epoch

    def see(self, position: int, header: BatchHeader) -> Iterator[Finding]:
        """Check a batch whose header can be trusted."""
        if self._first_seen is None and header.leader_epoch != NO_EPOCH and header.last_offset >= self._log_start:
            self._first_seen = header.base_offset
        return map(self._finding, self._checker.see(position, header))

    def _finding(self, run: EpochRun) -> Finding:
        kind, later = (Kind.EPOCHS_BEHIND, " or later") if run.lags else (Kind.EPOCHS, "")
        message = f"{run.said}, and the batches from offset {run.first} to {run.last} have epoch {run.epoch}{later}"
        return kind.at(self._path, message, offset=run.first)

    def settle(self) -> Iterator[Finding]:
        """Yield the last finding for the batches so far."""
        return map(self._finding, self._checker.finish())

    def finish(self, end_offset: int) -> Iterator[Finding]:
        """Check that epochs begin at most at `end_offset`, where a leader's newest epoch may begin (EP-3)."""
        yield from self.settle()
        if self._entries is None:
            return
        if not self._entries and self._first_seen is not None:
            lags = self._flushed is not None and self._first_seen >= self._flushed
            kind = Kind.EPOCHS_BEHIND if lags else Kind.EPOCHS
            yield kind.at(self._path, "no leader epoch, and the batches have some")
        for epoch, start in self._entries:
            if start > end_offset:
                message = f"epoch {epoch} begins at {start}, and the log ends at {end_offset}"
                yield Kind.EPOCHS_AHEAD.at(self._path, message, offset=start)
