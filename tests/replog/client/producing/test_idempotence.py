"""Sequences: which batch bears which number under which name, and what may be under way at a time."""

import pytest

from replog.client.producing.accumulator import Accumulator, PartitionQueue, ProducerBatch
from replog.client.producing.deliveries import DeliveryFailed
from replog.client.producing.idempotence import MAX_EPOCH, SEQUENCES, Identity, ProducerId, Sequences
from replog.log.formats.batch import parse_header, validate_crc
from tests.replog.client.decoding import decode


class Harness:
    """An idempotent accumulator with two partitions; each record is a batch of its own."""

    def __init__(self, *, named: bool = True) -> None:
        self.identity = Identity()
        self.identity.current = ProducerId(7, 0) if named else None
        self.offered: list[PartitionQueue] = []
        self.accumulator = Accumulator(
            batch_size=1,
            codec_number=0,
            buffer_memory=10**6,
            linger_s=0,
            clock=lambda: 0.0,
            ready=self.offered.append,
            later=lambda delay, call: None,
            identity=self.identity,
        )
        self.accumulator.flushing = 1  # a batch with room goes at once
        self.queue, self.other = self.accumulator.grow("t", 2, 1 << 20)

    def append(self, *values: bytes, queue: PartitionQueue | None = None) -> None:
        for value in values:
            self.accumulator.append(queue or self.queue, 5, None, value, ())

    def take(self, queue: PartitionQueue | None = None) -> list[ProducerBatch]:
        """As a stream does with the queue once it was offered."""
        queue = queue or self.queue
        assert self.offered.count(queue) == 1, "not offered"
        self.offered.remove(queue)
        return self.accumulator.take(queue, 10**6, 100)

    def land(self, *batches: ProducerBatch, appended: bool) -> None:
        """An answer for batches of one partition, or that it was lost."""
        (queue,) = {self.queue_of(batch) for batch in batches}
        for batch in batches:
            batch.may_be_appended |= not batch.refused
        for batch in batches if appended else ():
            self.accumulator.settle(batch)
            assert queue.sequences is not None
            queue.sequences.known = True
            queue.sequences.acknowledged = max(queue.sequences.acknowledged, batch.number)
        self.accumulator.land(queue, list(batches))
        self.accumulator.go_on(queue)

    def give_up(self, batch: ProducerBatch) -> None:
        sequences = self.queue_of(batch).sequences
        assert sequences is not None
        sequences.broken = True
        self.accumulator.settle(batch)
        self.accumulator.go_on(self.queue_of(batch))

    def queue_of(self, batch: ProducerBatch) -> PartitionQueue:
        return self.accumulator.topics[batch.outcome.partition.topic][batch.outcome.partition.partition]

    def acknowledge_first(self, queue: PartitionQueue | None = None) -> None:
        self.append(b"first", queue=queue)
        self.land(*self.take(queue), appended=True)


@pytest.fixture
def harness() -> Harness:
    """One batch is in the log."""
    harness = Harness()
    harness.acknowledge_first()
    return harness


def name(batch: ProducerBatch) -> tuple[int, int, int]:
    """Producer id, epoch and sequence as they go over the wire."""
    data = b"".join(batch.encoded())
    header = parse_header(data)
    assert validate_crc(data, 0, header)
    return header.producer_id, header.producer_epoch, header.base_sequence


def test_ps_2_sequences_wrap_to_0_within_a_batch_and_between_two():
    identity = Identity()
    identity.current = ProducerId(7, 0)
    sequences = Sequences(identity)
    assert sequences.take(SEQUENCES - 1)[1] == 0
    assert [sequences.take(records)[1] for records in (3, 1)] == [SEQUENCES - 1, 2]
    assert sequences.take(SEQUENCES - 3)[1] == 3
    assert sequences.take(1)[1] == 0


def test_ps_1_five_batches_from_the_oldest_on_are_under_way_and_no_more(harness):
    harness.append(*(b"%d" % i for i in range(3)))
    flying = harness.take()
    for _ in range(6):
        harness.append(b"x")
    while harness.offered:
        flying += harness.take()
    assert [batch.sequence for batch in flying] == [1, 2, 3, 4, 5]
    harness.land(flying[1], appended=True)  # the oldest has no answer: a sixth might push it out of the log's memory
    assert not harness.offered
    harness.land(flying[0], appended=True)
    assert [batch.sequence for batch in harness.take()] == [6, 7]


def test_after_a_hole_the_partition_begins_a_new_epoch_once_nothing_is_left_without_an_outcome(harness):
    harness.append(b"a", b"b")
    given_up, uncertain = harness.take()
    harness.append(b"new")
    (newer,) = harness.take()
    harness.give_up(given_up)
    harness.append(b"newest")
    harness.land(given_up, uncertain, newer, appended=False)
    again = harness.take()
    assert [name(batch) for batch in again] == [(7, 0, 2), (7, 0, 3)], "they may be in the log under these numbers"
    harness.land(*again, appended=True)
    assert [name(batch) for batch in harness.take()] == [(7, 1, 0)]


def test_a_batch_that_the_log_refuses_after_a_hole_is_numbered_anew(harness):
    harness.append(b"a", b"b", b"c")
    given_up, second, third = harness.take()
    harness.give_up(given_up)
    harness.land(given_up, appended=False)
    second.refused = third.refused = True
    harness.land(second, third, appended=False)
    assert [name(batch) for batch in harness.take()] == [(7, 1, 0)]
    assert not second.refused, "the old number counts no more"
    harness.land(second, appended=True)
    assert [name(batch) for batch in harness.take()] == [(7, 1, 1)]
    assert [r.value for r in decode(b"".join(third.encoded()))] == [b"c"]


def test_a_refused_batch_that_another_replica_may_have_fails_and_those_behind_it_go_on(harness):
    """Failover, seed 334: with another number, it was in the log twice when that replica led again."""
    harness.append(b"a", b"b", b"c")
    given_up, second, third = harness.take()
    harness.give_up(given_up)
    third.refused = True
    harness.land(given_up, second, third, appended=False)  # the answer to the second is lost
    assert harness.take() == [second, third]
    second.refused = third.refused = True
    harness.land(second, third, appended=False)
    assert isinstance(second.outcome.error, DeliveryFailed)
    assert second.outcome.error.may_be_appended
    assert [name(batch) for batch in harness.take()] == [(7, 1, 0)]
    assert [r.value for r in decode(b"".join(third.encoded()))] == [b"c"]


def test_a_refused_batch_keeps_its_number_while_something_is_in_flight_or_not_known_of(harness):
    harness.append(b"a", b"b", b"c")
    a, b, c = harness.take()
    b.refused = True
    harness.land(b, appended=False)
    a.refused = True
    harness.land(a, appended=False)
    assert not harness.offered, "c is in flight"
    harness.land(c, appended=False)  # its answer was lost
    assert [name(batch) for batch in harness.take()] == [(7, 0, 1), (7, 0, 2), (7, 0, 3)]


def test_what_is_sent_again_goes_in_as_many_requests_as_it_takes(harness):
    harness.append(*(b"x" * 300 for _ in range(3)))
    harness.land(*harness.take(), appended=False)
    again = []
    while harness.offered:
        again.append([batch.sequence for batch in harness.accumulator.take(harness.offered.pop(), 1000, 100)])
    assert again == [[1], [2], [3]]


def test_the_other_partitions_begin_the_new_epoch_each_when_nothing_of_it_is_under_way(harness):
    harness.acknowledge_first(harness.other)
    harness.append(b"a")
    harness.append(b"x", queue=harness.other)
    given_up, other = harness.take() + harness.take(harness.other)
    harness.give_up(given_up)
    harness.land(given_up, appended=False)
    harness.append(b"b")
    assert name(harness.take()[0]) == (7, 1, 0)
    harness.append(b"y", queue=harness.other)
    assert not harness.offered, "x is under way in the old epoch"
    harness.land(other, appended=False)
    assert [name(batch) for batch in harness.take(harness.other)] == [(7, 0, 1)]
    harness.land(other, appended=True)
    assert [name(batch) for batch in harness.take(harness.other)] == [(7, 1, 0)]


def test_two_partitions_with_holes_of_one_epoch_need_one_new_epoch():
    harness = Harness()
    for queue in (harness.queue, harness.other):
        harness.acknowledge_first(queue)
        harness.append(b"a", queue=queue)
    for batch in harness.take() + harness.take(harness.other):
        harness.give_up(batch)
        harness.land(batch, appended=False)
    for queue in (harness.queue, harness.other):
        harness.append(b"b", queue=queue)
        assert name(harness.take(queue)[0]) == (7, 1, 0)


def test_a_batch_that_was_given_up_before_it_had_a_number_leaves_no_hole(harness):
    harness.append(b"a", b"b")
    (waiting, _) = harness.queue.batches
    harness.accumulator.settle(waiting)
    harness.accumulator.go_on(harness.queue)
    assert [name(batch) for batch in harness.take()] == [(7, 0, 1)]


def test_after_the_last_epoch_a_new_id_is_needed_and_batches_wait_for_it():
    harness = Harness()
    harness.identity.current = ProducerId(7, MAX_EPOCH)
    harness.acknowledge_first()
    harness.append(b"a")
    (given_up,) = harness.take()
    harness.give_up(given_up)
    harness.land(given_up, appended=False)
    assert harness.identity.current is None
    harness.append(b"b")
    assert harness.take() == []
    harness.identity.current = ProducerId(9, 0)
    harness.accumulator.go_on(harness.queue)
    assert [name(batch) for batch in harness.take()] == [(9, 0, 0)]
