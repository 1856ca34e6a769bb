"""Adding batches to the end of a log: to its files, and to what is known from its batches."""

from collections.abc import Sequence

from replog.config import TopicConfig
from replog.log.batch import BatchHeader
from replog.log.epoch_cache import LeaderEpochCache
from replog.log.offsets import Buffer
from replog.log.producers.control import EndTransactionMarker, marker_or_none
from replog.log.producers.recovery import ProducerSnapshots
from replog.log.producers.state import ProducerStateManager
from replog.log.segments import Segments
from replog.log.validation import epoch_starts


class LogWriter:
    """Nothing is checked here. A leader and its followers roll at the same batches, and write the same files.

    A want of descriptors (`TooManyOpenFiles`) may end a `write_all` between two segments, and nothing else half way.
    """

    def __init__(
        self,
        segments: Segments,
        epochs: LeaderEpochCache,
        producers: ProducerStateManager,
        snapshots: ProducerSnapshots,
    ) -> None:
        self._segments = segments
        self._epochs = epochs
        self.producers = producers
        self._snapshots = snapshots

    def write(
        self, config: TopicConfig, header: BatchHeader, buffers: Sequence[Buffer], marker: EndTransactionMarker | None
    ) -> None:
        """Add one batch, whose bytes are those of `buffers`; `marker` is what it is if it ends a transaction."""
        if self._epochs.assign(header.leader_epoch, header.base_offset):
            self._epochs.save()
        if self._segments.active.should_roll(header, config):
            self.start_segment(header.base_offset)
        active = self._segments.active
        active.write_batches(buffers)  # first: if it cannot be opened, nothing is accounted for
        self._add(config, header, marker)
        active.write_indexes()

    def write_all(self, config: TopicConfig, records: Buffer, batches: Sequence[tuple[int, BatchHeader]]) -> None:
        """Add the batches that lie in `records` one behind the other, with few writes."""
        view, slot, log_end = memoryview(records), 0, self._segments.active.next_offset
        try:
            while slot < len(batches):
                if self._segments.active.should_roll(batches[slot][1], config):
                    self.start_segment(batches[slot][1].base_offset)
                slot = self._fill(config, view, batches, slot)
        finally:
            self._epochs.assign_all(epoch_starts(batches[:slot], log_end))

    def _fill(
        self, config: TopicConfig, view: memoryview, batches: Sequence[tuple[int, BatchHeader]], slot: int
    ) -> int:
        """Write the batch at `slot` to the active segment, and those behind it that fit; return the slot after them."""
        active, (start, header) = self._segments.active, batches[slot]
        with active.file:
            while True:
                self._add(config, header, marker_or_none(view, header, batches[slot][0]))
                end, slot = batches[slot][0] + header.size, slot + 1
                if slot == len(batches) or active.should_roll(header := batches[slot][1], config):
                    active.write([view[start:end]])
                    return slot

    def start_segment(self, base_offset: int) -> None:
        """Go on in a new segment; what is known of the producers by then lies beside it (LG-5)."""
        self._segments.start(base_offset)
        self._snapshots.take(base_offset, self.producers)  # the next flush makes it durable

    def _add(self, config: TopicConfig, header: BatchHeader, marker: EndTransactionMarker | None) -> None:
        """An aborted transaction is noted in the segment that holds its marker (IX-19)."""
        self._segments.active.add(header, config.index_interval_bytes)
        if header.producer_id >= 0:
            aborted = self.producers.update(header, marker)
            if aborted is not None:
                self._segments.active.transaction_index.append(aborted)
