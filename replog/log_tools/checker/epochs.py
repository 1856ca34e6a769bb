"""Checks batches against the leader epoch checkpoint, which must name the epoch of each (EP-1)."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from replog.config.properties import MAX_LONG
from replog.log.epochs import EpochEntry
from replog.log.formats.batch import BatchHeader
from replog.log.offsets import NO_EPOCH

_start = itemgetter(1)


class EpochRun(NamedTuple):
    """Adjacent batches for which the checkpoint names another epoch."""

    position: int  # the first batch's
    first: int
    last: int
    epoch: int  # the first batch's, and all others' unless the checkpoint lags
    said: str  # the checkpoint's words
    lags: bool  # no fault: the checkpoint will say so later


class EpochChecker:
    """Checks the batches of a replica, or of a part of it, in order. Without entries it finds nothing."""

    def __init__(
        self, entries: Sequence[EpochEntry], log_start: int, *, unclean: bool = False, flushed: int | None = None
    ) -> None:
        """Ignore offsets below the log start, which an `unclean` replica need not have noted: then the entries begin
        with it (EP-5). From `flushed` on the checkpoint may lag behind; None: it is complete."""
        self._entries = entries
        self._log_start = self._begin = log_start
        if unclean and entries:
            self._begin = max(log_start, entries[0][1])
        self._flushed = MAX_LONG if flushed is None else flushed
        self._run: EpochRun | None = None
        self._hidden: EpochRun | None = None  # the last batch, if there may have been an entry for it

    def see(self, position: int, header: BatchHeader) -> Iterator[EpochRun]:
        """Check a batch whose header can be trusted. Yield the run that it ends."""
        if not self._entries:
            return
        base, last, epoch = header.base_offset, header.last_offset, header.leader_epoch
        if last < self._begin:
            yield from self.finish()
            if self._log_start <= last == self._begin - 1 and epoch < self._entries[0][0]:
                self._hidden = EpochRun(position, base, last, epoch, f"no epoch before {self._entries[0]}", lags=False)
            return
        if self._hidden is not None and (epoch, base) == self._entries[0]:
            # A raised log start keeps its epoch's entry. This one begins with its epoch: an earlier one is missing.
            yield self._hidden
        self._hidden = None
        said = self._epoch_at(max(base, self._begin)), self._epoch_at(last)
        if said == (epoch, epoch):
            yield from self.finish()
            return
        lags = base >= self._flushed and max(said[1], self._entries[-1][0]) < epoch
        run = self._run
        if run is not None and run.last + 1 == base and (lags if run.lags else epoch == run.epoch):
            self._run = run._replace(last=last)
            return
        yield from self.finish()
        says = " and ".join("no epoch" if one == NO_EPOCH else f"epoch {one}" for one in sorted(set(said)))
        self._run = EpochRun(position, base, last, epoch, says, lags)

    def finish(self) -> Iterator[EpochRun]:
        """Yield the last run: no more batches follow."""
        self._hidden = None
        if self._run is not None:
            yield self._run
            self._run = None

    def _epoch_at(self, offset: int) -> int:
        slot = bisect_right(self._entries, offset, key=_start) - 1
        return self._entries[slot][0] if slot >= 0 else NO_EPOCH
