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
    """Nothing is checked here. A leader and its followers roll at the same batches, and write the same files."""

    def __init__(
        self,
        segments: Segments,
        epochs: LeaderEpochCache,
        producers: ProducerStateManager,
        snapshots: ProducerSnapshots,
    ) -> None:
        self._segments = segments
        self._epochs = epochs
        self._producers = producers
        self._snapshots = snapshots

    def write(
        self, config: TopicConfig, header: BatchHeader, buffers: Sequence[Buffer], marker: EndTransactionMarker | None
    ) -> None:
        """Add one batch, whose bytes are those of `buffers`; `marker` is what it is if it ends a transaction."""
        self._epochs.assign(header.leader_epoch, header.base_offset)
        if self._segments.active.should_roll(header, config):
            self.start_segment(header.base_offset)
        self._add(config, header, marker)
        self._segments.active.write(buffers)

    def write_all(self, config: TopicConfig, records: Buffer, batches: Sequence[tuple[int, BatchHeader]]) -> None:
        """Add the batches that lie in `records` one behind the other, with few writes."""
        view, active = memoryview(records), self._segments.active
        self._epochs.assign_all(epoch_starts(batches, active.next_offset))
        start = end = 0
        for position, header in batches:
            if active.should_roll(header, config):
                if end > start:
                    active.write([view[start:end]])
                    start = end
                self.start_segment(header.base_offset)
                active = self._segments.active
            self._add(config, header, marker_or_none(view, header, position))
            end += header.size
        active.write([view[start:end]])

    def start_segment(self, base_offset: int) -> None:
        """Go on in a new segment; what is known of the producers by then lies beside it (LG-5)."""
        self._segments.start(base_offset)
        self._snapshots.take(base_offset, self._producers, fsync=False)  # the next flush does it

    def _add(self, config: TopicConfig, header: BatchHeader, marker: EndTransactionMarker | None) -> None:
        """An aborted transaction is noted in the segment that holds its marker (IX-19)."""
        self._segments.active.add(header, config.index_interval_bytes)
        if header.producer_id >= 0:
            aborted = self._producers.update(header, marker)
            if aborted is not None:
                self._segments.active.transaction_index.append(aborted)
