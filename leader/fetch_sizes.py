"""Which partitions of a fetch are read how far, and whether it is answered at once (FE-8 to FE-11)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from replog.errors import ErrorCode
from replog.fetch import FetchAnswer, FetchPartition, PartitionRead
from replog.topic import TopicPartition

ReadPartition = Callable[[TopicPartition, FetchPartition, int, bool], PartitionRead]
"""Read one partition, at most so many bytes; True: its first batch whole, however large."""


@dataclass(frozen=True, slots=True)
class FetchRound:
    """One pass over the partitions of a fetch, in the order of the request."""

    reads: Mapping[TopicPartition, PartitionRead]
    total_bytes: int

    def answers_at_once(self, *, max_wait_ms: int, min_bytes: int) -> bool:
        """FE-11: there is enough to say, or nothing to wait for."""
        answers = (read.answer for read in self.reads.values())
        return max_wait_ms <= 0 or not self.reads or is_enough(answers, min_bytes)


def is_enough(answers: Iterable[FetchAnswer], min_bytes: int) -> bool:
    """Whether there is enough data, or news that is not data."""
    total = 0
    for answer in answers:
        total += len(answer.records)
        if (
            answer.error is not ErrorCode.NONE
            or answer.diverging is not None
            or answer.preferred_read_replica is not None
        ):
            return True
    return total >= min_bytes


def read_partitions(
    requests: Iterable[tuple[TopicPartition, FetchPartition]], read: ReadPartition, max_bytes: int
) -> FetchRound:
    """Read in order until `max_bytes` are used up (FE-9).

    The first batch of the first partition that has any is returned whole, so whoever is first makes progress; the
    total is at most `max_bytes` and that one batch. Later partitions get what is left, perhaps nothing, which is
    why callers rotate those that returned data to the end (FE-10).
    """
    reads: dict[TopicPartition, PartitionRead] = {}
    total = 0
    for topic_partition, request in requests:
        limit = min(request.max_bytes, max(0, max_bytes - total))
        result = read(topic_partition, request, limit, total == 0)
        reads[topic_partition] = result
        total += len(result.answer.records)
    return FetchRound(reads, total)
