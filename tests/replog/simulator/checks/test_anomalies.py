"""The anomaly catalogue, each by hand and nearly: INV-17, INV-18; lost, invented, repeated, disordered records; of
compacted topics (CL-5) and of transactions (LG-9)."""

import pytest

from replog.client.producing.deliveries import RecordMetadata
from replog.simulator.checks.anomalies import Anomaly
from replog.simulator.history import Outcome, Poll, Read
from tests.replog.simulator.checks.story import OTHER, TP

KEYED = "history compacted; sent 0@0:a 1@1:b"
OPEN = "history transactional"
STORIES = [  # as Story.told says them
    (
        "honest",
        "sent 0@0 1@1 2@2 3@3 4@4 5@5; poll 0=0 1=1; poll 2=2; seek; poll 1=1 2=2; poll-2 3=3 4=4 5=5; "
        "latest 4:1-2 6:3-4; drained 0 1 2 3 4 5",
        [],
    ),
    ("readers passed over an acknowledged record", "sent 0@0 1@1 2@2; poll 2=2; poll-2 0=0", ["lost-write"]),
    ("an acknowledged record is not there in the end", "sent 0@0 1@1 2@2; drained 0 1", ["unseen"]),
    ("acknowledged without an offset, by a leader that restarted", "sent 0@0 1@-1; drained 0 1", []),
    ("acknowledged without an offset, and nowhere", "sent 0@0 1@-1 2@-1; drained 0 1", ["unseen"]),
    ("one value at two offsets", "sent 0@0 1@1; poll 0=0 1=1 2=1", ["duplicate"]),
    ("a value at its place, and elsewhere", "sent 0@0 1; poll 0=1 1=0", ["duplicate", "inconsistent-offsets"]),
    ("a value twice, without idempotence", "sent-plain 0@0; poll 0=0 1=0", []),
    ("INV-17: another value than was acknowledged (PR-13)", "sent 0@0; sent-2 1; poll 0=1", ["inconsistent-offsets"]),
    ("INV-17: two readers find two values", "sent 0 1; poll 3=0; poll-2 3=1", ["inconsistent-offsets"]),
    ("INV-17: one offset in two acknowledgements", "sent 0@0; sent-2 1@0", ["inconsistent-offsets"]),
    ("INV-17 is not for acks=1, nor for two partitions", "sent-plain 0@0; sent-2 1@0; sent-other 2@0; poll 0=1", []),
    ("nobody sent it there", "sent-other 0@0; poll 0=0", ["made-up"]),
    (
        "offsets left out, in one poll and between two",
        "sent 0@0 1@1 2@2 3@3 4@4 5@5; poll 0=0 2=2; poll 4=4; poll-2 1=1 2=2 3=3 4=4 5=5",
        ["int-poll-skip", "poll-skip"],
    ),
    ("deleted offsets left out", "sent 0@0 1@1 2@2 3@3; deleted 3; poll 0=0; poll 3=3", []),
    ("more than the deleted", "sent 0@0 1@1 2@2 3@3 4@4; deleted 3; poll 0=0; poll 4=4; poll-2 3=3", ["poll-skip"]),
    (
        "back, in one poll and between two",
        "sent 0@0 1@1 2@2 3@3; poll 0=0 1=1 2=2 1=1; poll 0=0; poll-2 0=0 1=1 2=2 3=3",
        ["int-nonmonotonic-poll", "nonmonotonic-poll"],
    ),
    ("one offset in two polls", "sent 0@0; poll 0=0; poll 0=0", ["nonmonotonic-poll"]),
    ("the last reader misses one", "sent 0@0 1@1 2@2 3@3; drained 0 1 3", ["lost-write", "poll-skip", "unseen"]),
    ("the last reader stops before the end", "sent 0@0 1@1; drained 0 1 end=3", ["poll-skip"]),
    ("skips, and disorder without idempotence", "sent 0@0 1@7; sent-plain 2@3 3@2; sent 4@-1 5@9", []),
    ("a negative offset is read and told as the end", "sent 0; poll -1=0; latest -1:0-1", ["bad-offset", "bad-offset"]),
    ("lost, and acks=1", "sent 0@0; sent-plain 1@1; sent 2@2; poll 0=0; poll-2 2=2", []),
    ("not read so far", "sent 0@0 1@1 2@2; poll 0=0", []),
    ("lost, and deleted", "sent 0@0 1@1 2@2; poll 0=0; poll-2 2=2; deleted 2", []),
    ("lost, and perhaps deleted", "sent 0@0 1@1 2@2; poll 0=0; poll-2 2=2; deleted-unknown 2", []),
    ("lost, and a deletion has no answer", "sent 0@0 1@1 2@2; poll 0=0; poll-2 2=2; deleted-pending 2", []),
    ("lost, and a deletion failed", "sent 0@0 1@1 2@2; poll 0=0; poll-2 2=2; deleted-failed 2", ["lost-write"]),
    ("lost above a deletion", "sent 0@0 1@1 2@2; poll 0=0; poll-2 2=2; deleted 1", ["lost-write"]),
    ("not there, and it need not be", "sent 0@0; sent-plain 1@1; unknown 2; sent 3; drained 0", []),
    ("its sending certainly failed", "failed 0; poll 0=0", ["made-up"]),
    ("its sending may have failed", "unknown 0; poll 0=0", []),
    ("lost, and retention took it", "history retained; sent 0@0 1@1 2@2; poll 0=0; poll-2 2=2; drained 2 start=2", []),
    ("lost, and cleaned", "history compacted; sent 0@0 1@1 2@2; poll 0=0; poll-2 2=2", []),
    ("lost by an unclean election", "history unclean; sent 0@0 1@1 2@2; poll 0=0; poll-2 2=2", []),
    ("lost with its topic", "history deleted; sent 0@0 1@1 2@2; poll 0=0; poll-2 2=2", []),
    ("a seek, another consumer", "sent 0@0 1@1; poll 0=0 1=1; poll-2 0=0; seek; poll 0=0", []),
    (
        "an unclean election excuses its partition",
        "history unclean; sent 0@0 1@1; sent-2 2@1; poll 0=0 1=1; poll 0=2; drained 0",
        [],
    ),
    (
        "an unclean election excuses no invention, and no disorder in one poll",
        "history unclean; sent-2 2@1; poll 5=77; poll-2 6=2 6=2",
        ["int-nonmonotonic-poll", "made-up"],
    ),
    ("INV-18: after an unclean election", "history unclean; latest 10:0-1 9:2-3", []),
    ("INV-18: an end offset goes back", "latest 10:0-1 12:1-2 11:2-3", ["nonmonotonic-latest"]),
    ("INV-18: a longer question between", "latest 10:0-1 10:1.5-9 9:2-3", ["nonmonotonic-latest"]),
    ("INV-18: another question was open", "latest 10:0-5 9:4-6 9:7-8", ["nonmonotonic-latest"]),
    ("INV-18: of another client, or asked before", "latest 10:0-5 9:4-6; latest-2 8:7-8; latest 10:9-10", []),
    ("CL-5: the latest of a key is gone", f"{KEYED} 2@2:a; drained 0 1 end=3", ["stale-key"]),
    ("a tombstone is gone", f"{KEYED} 2@2:a!; drained 0 1 end=3", []),
    ("nobody knows that it was written", f"{KEYED} 2:a; drained 0 1 end=3", []),
    ("it was deleted", f"{KEYED} 2@2:a; deleted 3; drained 0 1 end=3", []),
    ("it is gone by an unclean election", f"history unclean; {KEYED} 2@2:a; drained 0 1 end=3", []),
    ("a tombstone may have come behind it", f"{KEYED} 2@2:a 3:a!; drained 0 1 end=3", []),
    ("LG-9: aborted", f"{OPEN}; sent-aborted 0; sent 1@1; poll-committed 0=0 1=1", ["aborted-read"]),
    ("LG-9: not decided yet", f"{OPEN}; sent-decided_later 0@0; sent 1@1; poll-committed 0=0 1=1", ["aborted-read"]),
    (
        "an aborted record, and a marker at 2",
        f"{OPEN}; sent-aborted 0; sent 1@1 3@3; poll 0=0 1=1 3=3; poll-committed 1=1 3=3; drained 0 1 3; "
        "drained-committed 1 3",
        [],
    ),
    (
        "a committed record is not there",
        f"{OPEN}; sent-committed 0@0; sent 1@1 3@3; drained 0 1 3; drained-committed 1 3",
        ["unseen"],
    ),
    (
        "a record is passed over among transactions",
        f"{OPEN}; sent-committed 0@0; sent 1@1 3@3; poll-committed 0=0 3=3; poll-2 1=1",
        ["int-poll-skip"],
    ),
]


@pytest.mark.parametrize(("told", "anomalies"), [row[1:] for row in STORIES], ids=[row[0] for row in STORIES])
def test_what_a_history_is_accused_of(told, anomalies, story):
    story.told(told)
    assert sorted(story.anomalies) == anomalies


def test_anomalies_that_are_invariants_say_which():
    told = {name: Anomaly(name, TP, "").invariant for name in ("inconsistent-offsets", "nonmonotonic-latest", "unseen")}
    assert told == {"inconsistent-offsets": "INV-17", "nonmonotonic-latest": "INV-18", "unseen": "unseen"}


@pytest.mark.parametrize(("passed_over", "anomalies"), [(0, ["duplicate"]), (1, ["duplicate"]), (2, [])])
def test_a_retry_is_taken_again_where_a_replica_never_had_the_first_copy(passed_over, anomalies, story):
    """It began behind it, at its leader's log start, and led: nobody told it of the producer."""
    story.told("sent 0@0 1@1; poll 0=0 1=1 2=1")
    story.history.passed_over[TP] = passed_over
    assert story.anomalies == anomalies


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.UNKNOWN, Outcome.PENDING])
@pytest.mark.parametrize(("done", "lost"), [({}, True), ({TP: 1}, True), ({TP: 2}, False), ({OTHER: 2}, True)])
def test_lost_write_below_a_deletion_of_all_that_is_committed(outcome, done, lost, story):
    """How far leaders went decides, and not what the client knows: another try, or a copy, may have gone further."""
    story.all_sent(3)
    story.polled((2, 2))
    story.polled((0, 0), client="consumer-2")
    story.deleted(-1, outcome, low_watermark=1)
    story.history.committed_deleted = done
    assert story.anomalies == (["lost-write"] if lost else [])


def test_nonmonotonic_poll_nearly(story):
    """In the partitions of one poll."""
    story.all_sent(2)
    story.polled((0, 0))
    story.sent(9, 5, partition=OTHER)
    story.history.reads.append(Poll("consumer-1", (Read(TP, 1, b"1"), Read(OTHER, 5, b"9")), 91.0))
    assert story.anomalies == []


def test_nonmonotonic_send_and_int_nonmonotonic_send(story):
    story.sent(0, 5)
    story.sent(1, 4)
    for send, offset in zip([story.sent(2), story.sent(3)], (9, 8), strict=True):
        story.history.acknowledged(send, RecordMetadata(TP.topic, TP.partition, offset, 0), 50.0)
    assert story.anomalies == ["nonmonotonic-send", "int-nonmonotonic-send"]


@pytest.mark.parametrize(
    ("offset", "acks", "idempotent", "bad"),
    [(-1, -1, True, False), (-1, 0, False, False), (-1, -1, False, True), (-1, 1, False, True), (-2, -1, True, True)],
)
def test_bad_offset_of_an_acknowledgement(offset, acks, idempotent, bad, story):
    story.sent(0, offset, acks=acks, idempotent=idempotent)
    assert story.anomalies == (["bad-offset"] if bad else [])


@pytest.mark.parametrize(
    ("offset", "low_watermark", "bad"), [(3, 3, False), (3, 4, False), (3, 2, True), (-1, 0, False), (-1, -1, True)]
)
def test_bad_offset_of_a_deletion(offset, low_watermark, bad, story):
    """It is answered when no live replica has the records any longer (FT-23)."""
    story.deleted(offset, low_watermark=low_watermark)
    assert story.anomalies == (["bad-offset"] if bad else [])
