"""The ledger of one partition: what all its replicas hold, and what was ever committed."""

from collections import Counter
from typing import NoReturn

from replog.log.formats.batch import CONTROL, TRANSACTIONAL, BatchHeader
from replog.log.formats.records import LogRecord
from replog.metadata.values import PartitionState
from replog.simulator.checks.chain import Chain, KnownBatch
from replog.simulator.checks.seen_replica import SeenReplica
from replog.simulator.invariants import Violation
from replog.topic import TopicPartition


class PartitionLedger:
    """One partition of one topic; a topic that is deleted and created again has a new ledger."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.state: PartitionState | None = None  # the controller's record, kept while there is no controller
        self.deleted = False  # its replicas vanish one by one, and are not checked any more
        self.replicas: dict[int, SeenReplica] = {}
        self.batches: dict[tuple[int, int], KnownBatch] = {}  # keys: leader epoch and base offset
        self.transactional: dict[tuple[int, int], tuple[int, bool]] = {}  # same keys: producer id, True for a marker
        self.records: dict[tuple[int, int], LogRecord] = {}  # only for a compacted log; keys: leader epoch and offset
        self.leaders: dict[int, tuple[int, object]] = {}  # each epoch's acting leader: broker and incarnation
        self.recorded_leaders: dict[int, int] = {}  # each epoch's leader as the controller elected it
        self.committed = Chain()  # every batch that a leader's high watermark was ever above
        self.committed_end = 0  # every record below it is committed
        self.committed_at_election: dict[int, int] = {}  # each epoch's `committed_end` when its leader was elected
        self.highest = 0  # the highest high watermark of any leader; unclean elections do not lower it
        self.highest_of_epoch: dict[int, int] = {}
        self.highest_start = 0  # the highest log start that was asked for, or that retention left
        self.done: Counter[str] = Counter()  # counts of events, for the report
        self.unclean: dict[int, int] = {}  # each unclean election's epoch, and the offset up to which it kept the log

    def intern(self, header: BatchHeader, previous: KnownBatch | None, replica: SeenReplica) -> KnownBatch:
        """Return the one batch of this header, and check that all logs agree on it and on `previous` (INV-13)."""
        key = header.leader_epoch, header.base_offset
        batch = self.batches.get(key)
        if batch is None:
            batch = self.batches[key] = KnownBatch(
                header.base_offset, header.next_offset, header.leader_epoch, header.crc, previous
            )
            if header.attributes & TRANSACTIONAL:
                self.transactional[key] = header.producer_id, bool(header.attributes & CONTROL)
        elif batch.crc != header.crc or batch.next != header.next_offset:
            self.fail(
                "INV-13",
                f"broker {replica.broker_id} holds another batch at offset {header.base_offset} of epoch "
                f"{header.leader_epoch} (up to {header.last_offset}, crc {header.crc:08x}) than was seen: {batch}",
            )
        elif batch.previous is not previous and previous is not None:
            if batch.previous is not None:
                self.fail(
                    "INV-13",
                    f"broker {replica.broker_id} holds {batch} behind {previous}, and elsewhere it lies behind "
                    f"{batch.previous}",
                )
            batch.previous = previous
        return batch

    def bounded(self, offset: int, epoch: int) -> int:
        """Return `offset`, or the lower one up to which unclean elections after `epoch` kept the log."""
        return min(
            (kept for unclean, kept in self.unclean.items() if unclean > epoch and kept < offset), default=offset
        )

    def is_incomplete(self, replica: SeenReplica | None, end: int, chain: Chain) -> bool:
        """Return True if the replica has not every record of `chain` below `end`, or has another in a place.

        Records below its log start do not count. In compacted logs only the end offsets are compared."""
        if end <= 0:
            return False
        if replica is None:
            return True
        if end <= replica.start:
            return False
        if replica.end < end:
            return True
        batch = chain.at(end - 1)
        return batch is not None and not replica.compacted and replica.chain.at(end - 1) is not batch

    def common_end(self, replica: SeenReplica | None) -> int:
        """Return the offset up to which the replica holds what was committed."""
        if replica is None:
            return 0
        if replica.compacted:
            return min(replica.end, self.committed_end)
        for batch in reversed(self.committed.batches):
            if replica.chain.at(batch.base) is batch:
                return min(batch.next, self.committed_end)
        return min(replica.start, self.committed_end)

    def fail(self, invariant: str, text: str) -> NoReturn:
        lines = [f"{self.topic_partition}: {text}", f"the controller has {self.state}"]
        lines.append(f"committed up to {self.committed_end}: {self.committed}")
        if self.unclean:
            lines.append(f"unclean elections, by epoch, and what they kept: {self.unclean}")
        lines += [str(replica) for _, replica in sorted(self.replicas.items())]
        raise Violation(invariant, "\n    ".join(lines))
