"""The anomaly catalogue, each by hand and nearly: INV-17, INV-18; lost, invented, repeated, disordered records."""

import pytest

from cluster.simulation.checks.anomalies import find_anomalies
from cluster.simulation.history import Outcome, Poll, Read
from replog.client.accumulator import DeliveryFailed, RecordMetadata
from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition
from tests.cluster.simulation.checks.story import OTHER, TP, Story


@pytest.fixture
def story() -> Story:
    return Story()


def test_an_honest_history_has_no_anomalies(story: Story) -> None:
    story.all_sent(6)
    story.polled((0, 0), (1, 1))
    story.polled((2, 2))
    story.seek()
    story.polled((1, 1), (2, 2))
    story.polled((3, 3), (4, 4), (5, 5), client="consumer-2")
    story.latest(4, 1.0, 2.0)
    story.latest(6, 3.0, 4.0)
    story.drained(range(6))
    assert story.anomalies == []


# lost-write, unseen


def test_lost_write_is_an_acknowledged_record_that_readers_passed_over(story: Story) -> None:
    story.all_sent(3)
    story.polled((2, 2))
    story.polled((0, 0), client="consumer-2")
    assert story.anomalies == ["lost-write"]


@pytest.mark.parametrize(
    "excuse", ["acks=1", "not read so far", "deleted", "retained", "compacted", "unclean", "topic"]
)
def test_lost_write_nearly(excuse: str, story: Story) -> None:
    history = story.history
    story.sent(0, 0)
    story.sent(1, 1, acks=1 if excuse == "acks=1" else -1, idempotent=False)
    story.sent(2, 2)
    story.polled((0, 0))
    if excuse != "not read so far":
        story.polled((2, 2), client="consumer-2")
    if excuse == "deleted":
        story.deleted(2)
    if excuse == "retained":
        history.retained["t"] = None
        story.drained([2], start=2)
    if excuse == "compacted":
        history.compacted["t"] = None
    if excuse == "unclean":
        history.unclean[TP] = None
    if excuse == "topic":
        history.deleted["t"] = None
    assert story.anomalies == []


@pytest.mark.parametrize(
    ("offset", "outcome", "lost"),
    [
        (1, Outcome.OK, True),  # record 1 is above
        (2, Outcome.OK, False),
        (2, Outcome.UNKNOWN, False),
        (2, Outcome.PENDING, False),
        (2, Outcome.FAILED, True),
    ],
)
def test_lost_write_below_a_deletion(offset: int, outcome: Outcome, lost: bool, story: Story) -> None:
    """What a deletion may have taken is excused, and nothing else."""
    story.all_sent(3)
    story.polled((2, 2))
    story.polled((0, 0), client="consumer-2")
    story.deleted(offset, outcome)
    assert story.anomalies == (["lost-write"] if lost else [])


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.UNKNOWN, Outcome.PENDING])
@pytest.mark.parametrize(("done", "lost"), [({}, True), ({TP: 1}, True), ({TP: 2}, False), ({OTHER: 2}, True)])
def test_lost_write_below_a_deletion_of_all_that_is_committed(
    outcome: Outcome, done: dict[TopicPartition, int], lost: bool, story: Story
) -> None:
    """How far leaders went decides, and not what the client knows: another try, or a copy, may have gone further."""
    story.all_sent(3)
    story.polled((2, 2))
    story.polled((0, 0), client="consumer-2")
    story.deleted(-1, outcome, low_watermark=1)
    story.history.committed_deleted = done
    assert story.anomalies == (["lost-write"] if lost else [])


def test_unseen_is_an_acknowledged_record_that_is_not_there_in_the_end(story: Story) -> None:
    story.all_sent(3)
    story.drained(range(2))
    assert story.anomalies == ["unseen"]


def test_unseen_is_a_record_acknowledged_without_an_offset_that_is_nowhere(story: Story) -> None:
    """A leader that restarted may know that a batch is there, but not where."""
    story.sent(0, 0)
    story.sent(1, -1)
    story.drained(range(2))
    assert story.anomalies == []
    story.sent(2, -1)
    assert story.anomalies == ["unseen"]


def test_unseen_nearly(story: Story) -> None:
    """acks=1 may be lost; what was not acknowledged may be there or not."""
    story.sent(0, 0)
    story.sent(1, 1, acks=1, idempotent=False)
    story.history.failed(story.sent(2), DeliveryFailed(ErrorCode.REQUEST_TIMED_OUT, "?", True), 9.0)
    story.sent(3)
    story.drained(range(1))
    assert story.anomalies == []


# duplicate, inconsistent-offsets, made-up


def test_duplicate_is_one_value_at_two_offsets(story: Story) -> None:
    story.all_sent(2)
    story.polled((0, 0), (1, 1), (2, 1))
    assert story.anomalies == ["duplicate"]


def test_duplicate_where_it_was_acknowledged_and_where_it_was_read(story: Story) -> None:
    story.sent(0, 0)
    story.sent(1)
    story.polled((0, 1), (1, 0))
    assert "duplicate" in story.anomalies


def test_duplicate_of_a_producer_without_idempotence_is_tolerated(story: Story) -> None:
    story.sent(0, 0, idempotent=False)
    story.polled((0, 0), (1, 0))
    assert story.anomalies == []


def test_inv_17_two_readers_find_two_values_at_one_offset(story: Story) -> None:
    """INV-17"""
    story.sent(0)
    story.sent(1)
    story.polled((3, 0))
    story.polled((3, 1), client="consumer-2")
    assert story.anomalies == ["inconsistent-offsets"]
    assert find_anomalies(story.history)[0].invariant == "INV-17"


def test_inv_17_an_acknowledged_offset_holds_another_value(story: Story) -> None:
    """INV-17: as when a wait for high watermarks does not look at epochs (PR-13)."""
    story.sent(0, 0)
    story.sent(1, client="producer-2")
    story.polled((0, 1))
    assert story.anomalies == ["inconsistent-offsets"]


def test_inv_17_two_acknowledgements_of_one_offset(story: Story) -> None:
    """INV-17: spurious offsets in answers."""
    story.sent(0, 0)
    story.sent(1, 0, client="producer-2")
    assert story.anomalies == ["inconsistent-offsets"]


def test_inv_17_nearly(story: Story) -> None:
    """INV-17 is not for acks=1, nor for two partitions."""
    story.sent(0, 0, acks=1, idempotent=False)
    story.sent(1, 0, client="producer-2")
    story.sent(2, 0, client="producer-3", partition=OTHER)
    story.polled((0, 1))
    assert story.anomalies == []


def test_made_up_is_a_value_that_nobody_sent_there(story: Story) -> None:
    story.sent(0, 0, partition=OTHER)
    story.polled((0, 0))
    assert story.anomalies == ["made-up"]


def test_made_up_is_a_value_whose_sending_certainly_failed(story: Story) -> None:
    send = story.sent(0)
    story.history.failed(send, ReplogError(ErrorCode.NOT_ENOUGH_REPLICAS, "no"), 3.0)
    story.polled((0, 0))
    assert story.anomalies == ["made-up"]
    story.history.failed(send, DeliveryFailed(ErrorCode.REQUEST_TIMED_OUT, "who knows", True), 3.0)
    assert story.anomalies == []


# polls


def test_int_poll_skip_and_poll_skip(story: Story) -> None:
    story.all_sent(6)
    story.polled((0, 0), (2, 2))
    story.polled((4, 4))
    story.polled((1, 1), (2, 2), (3, 3), (4, 4), (5, 5), client="consumer-2")
    assert story.anomalies == ["int-poll-skip", "poll-skip"]


def test_poll_skip_over_what_was_deleted_is_none(story: Story) -> None:
    story.all_sent(4)
    story.deleted(3)
    story.polled((0, 0))
    story.polled((3, 3))
    assert story.anomalies == []


def test_poll_skip_beyond_what_was_deleted(story: Story) -> None:
    story.all_sent(5)
    story.deleted(3)
    story.polled((0, 0))
    story.polled((4, 4))
    story.polled((3, 3), client="consumer-2")
    assert story.anomalies == ["poll-skip"]


def test_int_nonmonotonic_poll_and_nonmonotonic_poll(story: Story) -> None:
    story.all_sent(4)
    story.polled((0, 0), (1, 1), (2, 2), (1, 1))
    story.polled((0, 0))
    story.polled((0, 0), (1, 1), (2, 2), (3, 3), client="consumer-2")
    assert story.anomalies == ["int-nonmonotonic-poll", "nonmonotonic-poll"]


def test_nonmonotonic_poll_reads_one_offset_twice(story: Story) -> None:
    story.all_sent(1)
    story.polled((0, 0))
    story.polled((0, 0))
    assert story.anomalies == ["nonmonotonic-poll"]


def test_nonmonotonic_poll_nearly(story: Story) -> None:
    """After a seek, and between two consumers, and in the partitions of one poll."""
    story.all_sent(2)
    story.polled((0, 0), (1, 1))
    story.polled((0, 0), client="consumer-2")
    story.seek()
    story.polled((0, 0))
    story.sent(9, 5, partition=OTHER)
    story.history.reads.append(Poll("consumer-1", (Read(TP, 1, b"1"), Read(OTHER, 5, b"9")), 90.0, 91.0))
    assert story.anomalies == []


def test_poll_skip_in_what_the_last_reader_finds(story: Story) -> None:
    story.all_sent(4)
    story.drained([0, 1, 3])
    assert set(story.anomalies) == {"lost-write", "unseen", "poll-skip"}


def test_poll_skip_at_the_end_of_what_the_last_reader_finds(story: Story) -> None:
    story.all_sent(2)
    story.drained([0, 1], end=3)
    assert story.anomalies == ["poll-skip"]


# sends


def test_nonmonotonic_send_and_int_nonmonotonic_send(story: Story) -> None:
    story.sent(0, 5)
    story.sent(1, 4)
    together = [story.sent(2), story.sent(3)]
    for send, offset in zip(together, (9, 8), strict=True):
        story.history.acknowledged(send, RecordMetadata(TP.topic, TP.partition, offset, 0), 50.0)
    assert story.anomalies == ["nonmonotonic-send", "int-nonmonotonic-send"]


def test_int_send_skip_is_tolerated_and_so_is_disorder_without_idempotence(story: Story) -> None:
    story.sent(0, 0)
    story.sent(1, 7)
    story.sent(2, 3, client="producer-2", acks=1, idempotent=False)
    story.sent(3, 2, client="producer-2", acks=1, idempotent=False)
    story.sent(4, -1)
    story.sent(5, 9)
    assert story.anomalies == []


@pytest.mark.parametrize(
    ("offset", "acks", "idempotent", "bad"),
    [(-1, -1, True, False), (-1, 0, False, False), (-1, -1, False, True), (-1, 1, False, True), (-2, -1, True, True)],
)
def test_bad_offset_of_an_acknowledgement(offset: int, acks: int, idempotent: bool, bad: bool, story: Story) -> None:
    story.sent(0, offset, acks=acks, idempotent=idempotent)
    assert story.anomalies == (["bad-offset"] if bad else [])


def test_bad_offset_of_a_read_and_of_an_end(story: Story) -> None:
    story.sent(0)
    story.polled((-1, 0))
    story.latest(-1, 0.0, 1.0)
    assert story.anomalies == ["bad-offset", "bad-offset"]


@pytest.mark.parametrize(
    ("offset", "low_watermark", "bad"), [(3, 3, False), (3, 4, False), (3, 2, True), (-1, 0, False), (-1, -1, True)]
)
def test_bad_offset_of_a_deletion(offset: int, low_watermark: int, bad: bool, story: Story) -> None:
    """It is answered when no live replica has the records any longer (FT-23)."""
    story.deleted(offset, low_watermark=low_watermark)
    assert story.anomalies == (["bad-offset"] if bad else [])


# latest


def test_inv_18_an_end_offset_goes_back(story: Story) -> None:
    """INV-18"""
    story.latest(10, 0.0, 1.0)
    story.latest(12, 1.0, 2.0)
    story.latest(11, 2.0, 3.0)
    assert story.anomalies == ["nonmonotonic-latest"]
    assert find_anomalies(story.history)[0].invariant == "INV-18"


def test_inv_18_nearly(story: Story) -> None:
    """INV-18 is for one client, and for questions one after the other."""
    story.latest(10, 0.0, 5.0)
    story.latest(9, 4.0, 6.0)
    story.latest(8, 7.0, 8.0, client="client-2")
    story.latest(10, 9.0, 10.0)
    assert story.anomalies == []
    story.latest(9, 11.0, 12.0)
    story.history.unclean[TP] = None
    assert story.anomalies == []


def test_inv_18_remembers_the_most_that_was_told_though_a_shorter_question_came_between(story: Story) -> None:
    """INV-18"""
    story.latest(10, 0.0, 1.0)
    story.latest(10, 1.5, 9.0)  # asked early, answered late
    story.latest(9, 2.0, 3.0)
    assert story.anomalies == ["nonmonotonic-latest"]


def test_inv_18_remembers_what_was_told_while_another_question_was_open(story: Story) -> None:
    """INV-18"""
    story.latest(10, 0.0, 5.0)
    story.latest(9, 4.0, 6.0)
    story.latest(9, 7.0, 8.0)
    assert story.anomalies == ["nonmonotonic-latest"]


# unclean elections


def test_an_unclean_election_excuses_what_it_may_have_done_to_its_partition_and_no_more(story: Story) -> None:
    story.sent(0, 0)
    story.sent(1, 1)
    story.sent(2, 1, client="producer-2")
    story.polled((0, 0), (1, 1))
    story.polled((0, 2))
    story.drained([0])
    story.history.unclean[TP] = None
    assert story.anomalies == []
    story.polled((5, 77))
    story.polled((6, 2), (6, 2), client="consumer-9")
    assert story.anomalies == ["made-up", "int-nonmonotonic-poll"]
