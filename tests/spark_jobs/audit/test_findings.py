"""The verdict; what is told of what was cleaned, what counts as compared (CL-10), and what as another topic."""

from dataclasses import replace

from spark_jobs.audit.findings import (
    CONSISTENT,
    DIVERGED,
    INCONCLUSIVE,
    LEVELS,
    change_of,
    compared,
    deleted_below,
    not_looked_at,
    notes_of_cleaned,
    strangers,
    verdict,
)
from spark_jobs.replicas.describe import Replica


def replica(number: int, partition: int, cleaned_to: int, mark: int = 100) -> Replica:
    return Replica(number, "t", partition, 0, mark, 120, 1000, 2, cleaned_to=cleaned_to)


def test_nothing_to_compare_or_more_to_tell_than_was_looked_at_is_inconclusive():
    assert verdict([], compared=1) == CONSISTENT
    assert verdict([], compared=0) == INCONCLUSIVE
    assert verdict([], compared=1, complete=False) == INCONCLUSIVE


def test_what_a_level_does_not_compare_is_told():
    replicas = [replica(1, 0, 30), replica(2, 0, 50), replica(1, 1, 0), replica(2, 1, 0)]
    assert notes_of_cleaned("deep", replicas) == [
        "t-0: below offset 50 replicas were cleaned on their own; compared there record by record"
    ]
    for level in LEVELS[:3]:
        (line,) = notes_of_cleaned(level, replicas)
        assert f"below offset 50 replicas were cleaned on their own; level {level} compares nothing there" in line


def test_what_a_level_did_not_look_at_is_told():
    """Transaction indexes and producer snapshots: below deep, and of running brokers."""
    for level in LEVELS[:3]:
        assert not_looked_at(level, live=False).endswith("transaction indexes and producer snapshots")
    assert not_looked_at("deep", live=True) == "transaction indexes and producer snapshots"
    assert not_looked_at("deep", live=False) == ""


def test_a_partition_of_which_a_level_compares_nothing_does_not_count():
    cleaned = [replica(1, 0, 30), replica(2, 0, 100)]
    for level in LEVELS:
        assert compared(level, cleaned) == (level == "deep")
        assert compared(level, [replica(1, 0, 30), replica(2, 0, 99)]) == 1
        assert compared(level, [*cleaned, replica(1, 1, 0), replica(2, 1, 0)]) == (2 if level == "deep" else 1)
        assert compared(level, [replica(1, 0, 0, mark=0), replica(2, 0, 0, mark=0)]) == 1
        assert compared(level, [replica(1, 0, 0)]) == 0


def test_replicas_of_different_topics_of_one_name_are_not_compared():
    old, new, unread = (
        replace(replica(2, 0, 0), topic_id="OLD"),
        replace(replica(1, 0, 0), topic_id="NEW"),
        replica(4, 0, 0),
    )
    assert strangers([new, replace(new, replica=3), unread]) == []
    (finding,) = strangers([new, old, replace(new, replica=3), unread])
    assert (finding.kind, finding.wrong, finding.replicas) == ("OTHER_TOPIC", 2, (1, 2, 3))
    assert verdict([finding], compared=1) == DIVERGED
    assert "replicas 1 and 3 of topic id NEW; replica 2 of topic id OLD" in finding.why
    assert [finding.wrong for finding in strangers([new, old])] == [None]
    third = replace(unread, topic_id="THIRD")
    assert [finding.wrong for finding in strangers([new, old, replace(new, replica=3), third])] == [2, 4]
    assert change_of(old, replace(old, topic_id="NEW")) == "it belonged to topic id OLD, then to NEW"
    gone = Replica(2, "t", 0, 0, None, 0, 0, 0, "UNREADABLE", "broker 2", "the broker does not answer")
    assert change_of(old, gone) == "it was in order, then the broker does not answer"


def test_retention_explains_what_it_deleted_if_nothing_else_has_changed():
    before = {("t", partition, number): replica(number, partition, 0) for partition in (0, 1) for number in (1, 2)}
    retention = before | {("t", 0, 1): replace(replica(1, 0, 0), log_start=40)}
    assert deleted_below(before, before) == {}
    assert deleted_below(before, retention) == {("t", 0, 1): 40}
    assert deleted_below(retention, before) == {}, "a log that starts lower is another one"
    for other in (replica(2, 0, 7), replace(replica(2, 0, 0), log_end=119), replace(replica(2, 0, 0), leader_epoch=3)):
        assert deleted_below(before, retention | {("t", 0, 2): other}) == {}
    assert deleted_below(before, {place: listed for place, listed in retention.items() if place != ("t", 0, 2)}) == {}
