"""What is known of one partition across the whole cluster and over all time: the ledger of its replicas."""

from collections import Counter
from typing import NoReturn

from replog.log.formats.batch import CONTROL, TRANSACTIONAL, BatchHeader
from replog.log.formats.records import LogRecord
from replog.metadata.values import PartitionState
from replog.simulator.checks.chain import Chain, KnownBatch
from replog.simulator.checks.seen_replica import SeenReplica
from replog.simulator.checks.violation import Violation
from replog.topic import TopicPartition


class PartitionLedger:
    """One partition of one topic; a topic that is deleted and made again is another one."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.state: PartitionState | None = None  # the controller's record, Q; kept while there is no controller
        self.deleted = False  # its replicas vanish one by one, as they should: nothing is asked of them
        self.replicas: dict[int, SeenReplica] = {}
        self.batches: dict[tuple[int, int], KnownBatch] = {}  # by leader epoch and base offset
        self.transactional: dict[tuple[int, int], tuple[int, bool]] = {}  # batches' producers; whether it is a marker
        self.records: dict[tuple[int, int], LogRecord] = {}  # of a compacted log, by leader epoch and offset
        self.leaders: dict[int, tuple[int, object]] = {}  # by epoch, who acted: broker and incarnation
        self.recorded_leaders: dict[int, int] = {}  # by epoch, whom the controller elected
        self.committed = Chain()  # every batch that a leader's high watermark was ever above
        self.committed_end = 0  # the highest of them
        self.committed_at_election: dict[int, int] = {}  # by epoch
        self.highest = 0  # any high watermark a leader ever had; unclean elections do not lower this one
        self.highest_of_epoch: dict[int, int] = {}
        self.highest_start = 0  # the highest log start that was asked for, or that retention left
        self.done: Counter[str] = Counter()  # what happened to it, for the report
        self.unclean: dict[int, int] = {}  # by epoch of each unclean election, up to where its leader kept the log

    def intern(self, header: BatchHeader, previous: KnownBatch | None, replica: SeenReplica) -> KnownBatch:
        """The batch of this header, which lies behind `previous` in the replica's log (INV-13)."""
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

    def kept_since(self, epoch: int) -> int | None:
        """Up to where unclean elections kept what a leader of `epoch` committed before them; None: all of it."""
        return min((kept for unclean, kept in self.unclean.items() if unclean > epoch), default=None)

    def bounded(self, offset: int, epoch: int) -> int:
        """`offset`, or what unclean elections after `epoch` left of it."""
        if not self.unclean:
            return offset
        kept = self.kept_since(epoch)
        return offset if kept is None else min(offset, kept)

    def lacks(self, replica: SeenReplica | None, end: int, chain: Chain) -> bool:
        """Whether the replica lacks a record below `end` of the log `chain`, or has another one in its place.

        What lies below its log start it need not have. Of compacted logs only the offsets are compared.
        """
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
        """Up to where the replica holds what was committed."""
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
