"""A broker's ISR proposals on their way to the controller (ISR-8)."""

from collections.abc import Iterable
from itertools import islice

from leader.isr import IsrProposal
from replog.topic import TopicPartition

MAX_PROPOSALS = 500  # one request; a lost follower gives a leader one proposal for each partition


class AlterPartitionQueue:
    """At most one proposal per partition is queued and at most one request is in flight, carrying those first queued.

    A proposal leaves the queue only with its answer: neither newer metadata nor a failed request removes it."""

    def __init__(self) -> None:
        self._queued: dict[TopicPartition, IsrProposal] = {}
        self._in_flight: dict[TopicPartition, IsrProposal] | None = None

    def __len__(self) -> int:
        return len(self._queued)

    def submit(self, topic_partition: TopicPartition, proposal: IsrProposal) -> bool:
        """Queue a proposal. False if one of this partition still waits for its answer (OPERATION_NOT_ATTEMPTED)."""
        return self._queued.setdefault(topic_partition, proposal) is proposal

    def next_batch(self) -> dict[TopicPartition, IsrProposal] | None:
        """Return the proposals to send as one request now; None if nothing waits or a request is in flight."""
        if self._in_flight is not None or not self._queued:
            return None
        self._in_flight = dict(islice(self._queued.items(), MAX_PROPOSALS))
        return dict(self._in_flight)

    def on_answer(self, answered: Iterable[TopicPartition]) -> dict[TopicPartition, IsrProposal]:
        """Take the proposals of the answered partitions out of the queue and return them.

        The handler of the answer may submit again at once. Partitions missing from the answer stay queued; partitions
        that were not in the request are ignored."""
        in_flight, self._in_flight = self._in_flight or {}, None
        taken = {}
        for topic_partition in answered:
            if topic_partition in in_flight and topic_partition in self._queued:
                taken[topic_partition] = self._queued.pop(topic_partition)
        return taken

    def on_failure(self) -> None:
        """The request failed as a whole: keep everything queued, for a `next_batch` after a pause."""
        self._in_flight = None
