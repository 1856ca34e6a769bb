"""Blame, causes and consequences, without Spark."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

from spark_jobs.audit.findings import Interval, Mismatch, Replica, ReplicaFault, View
from spark_jobs.audit.resolve import resolve

DIRECTORIES = {replica: (Path(f"/data/{replica}"),) for replica in (1, 2, 3)}


def replica(number: int, *, end: int = 100, mark: int = 100, start: int = 0) -> Replica:
    return Replica(number, "t", 0, start, mark, end, 1000, 1)


def mismatch(*values: tuple[int, int, int]) -> Mismatch:
    """Of (replica, epoch, CRC)."""
    views = tuple(View(number, 11, epoch, crc, 80, 0, 400) for number, epoch, crc in values)
    pairs = tuple((a[0], b[0]) for a, b in combinations(values, 2) if a[1:] != b[1:])
    return Mismatch("VALUE_MISMATCH", "t", 0, 10, 11, 1, views, pairs)


def gap(number: int, first: int, last: int) -> ReplicaFault:
    return ReplicaFault("GAP", "t", 0, number, 0, 50, first, last, 1, ".log", "the offset jumps")


def test_the_majority_is_believed():
    (finding,) = resolve(DIRECTORIES, [], [], [mismatch((1, 1, 7), (2, 1, 8), (3, 1, 7))])
    assert (finding.wrong, finding.why) == (2, "replicas 1 and 3 agree, replica 2 is alone")


def test_a_replica_that_contradicts_itself_is_wrong_even_in_the_majority():
    lie = ReplicaFault("INDEX_LIE", "t", 0, 1, 0, 12, 8, 15, -1, ".digest", "entry 1")
    (finding,) = resolve(DIRECTORIES, [], [lie], [mismatch((1, 1, 7), (2, 1, 8))])
    assert (finding.wrong, "digest index" in finding.why) == (1, True)


def test_a_divergence_that_shows_again_where_another_replica_begins_is_told_once():
    """Replica 3 begins later than the two that part at offset 10, and agrees with replica 1."""
    one = replace(mismatch((1, 1, 7), (2, 1, 8)), last=90)
    again = replace(mismatch((1, 1, 5), (2, 1, 6), (3, 1, 5)), first=50, last=90, pairs=((2, 3),))
    (finding,) = resolve(DIRECTORIES, [], [], [again, one])
    assert (finding.first, finding.last, finding.wrong) == (10, 90, 2)


def test_disagreements_without_a_replica_in_common_are_told_apart():
    one = replace(mismatch((1, 1, 7), (2, 1, 7), (3, 1, 8)), last=90)
    other = replace(mismatch((1, 1, 5), (2, 1, 6)), first=50, last=51)
    assert [finding.first for finding in resolve(DIRECTORIES, [], [], [one, other])] == [10, 50]


def test_who_parted_from_both_others_is_not_blamed_for_what_these_have_of_their_own():
    """Replica 1 parted from 2 and 3 at offset 10, and carries the oldest epoch; these part from each other at 50."""
    one = replace(mismatch((1, 1, 7), (2, 2, 8), (3, 2, 8)), last=90)
    other = replace(mismatch((1, 1, 7), (2, 2, 8), (3, 2, 9)), first=50, last=51, pairs=((2, 3),))
    findings = resolve(DIRECTORIES, [], [], [one, other])
    assert [(f.first, f.wrong) for f in findings] == [(10, 1), (50, None)]


def test_replicas_that_parted_before_do_not_agree_against_a_third():
    """Replica 3 begins at 50, where 1 and 2 have parted already."""
    one = replace(mismatch((1, 1, 7), (2, 1, 8)), last=90)
    other = replace(mismatch((1, 1, 7), (2, 1, 8), (3, 1, 9)), first=50, last=90, pairs=((1, 3), (2, 3)))
    findings = resolve(DIRECTORIES, [], [], [one, other])
    assert [(f.first, f.wrong) for f in findings] == [(10, None), (50, None)]


def test_without_evidence_nobody_is_blamed():
    (finding,) = resolve(DIRECTORIES, [], [], [mismatch((1, 1, 7), (2, 1, 8))])
    assert finding.wrong is None
    assert "nothing tells which is right" in finding.remedy


def test_a_hole_that_another_replica_fills_is_a_loss_up_to_what_is_committed():
    (finding,) = resolve(DIRECTORIES, [replica(1, mark=50), replica(2, mark=45)], [gap(2, 40, 60)])
    assert (finding.kind, finding.wrong, finding.first, finding.last) == ("COMMITTED_LOSS", 2, 40, 49)


def test_a_hole_that_nobody_fills_is_a_gap():
    (finding,) = resolve(DIRECTORIES, [replica(1, start=70), replica(2)], [gap(2, 40, 60)])
    assert (finding.kind, finding.first, finding.last) == ("GAP", 40, 60)


def test_a_hole_below_the_log_start_was_deleted_on_purpose_and_makes_no_index_lie():
    replicas = [replica(1), replica(2, start=61)]
    assert resolve(DIRECTORIES, replicas, [gap(2, 40, 60)]) == []
    lie = ReplicaFault("INDEX_LIE", "t", 0, 2, 0, 8, 70, 70, -1, ".index", "entry 1")
    (finding,) = resolve(DIRECTORIES, replicas, [gap(2, 40, 60), lie])
    assert (finding.kind, finding.first) == ("INDEX_LIE", 70)


def test_who_lacks_the_same_offsets_from_its_log_start_on_does_not_fill_a_hole():
    findings = resolve(DIRECTORIES, [replica(1, start=50), replica(2)], [gap(1, 40, 60), gap(2, 40, 60)])
    assert [(f.kind, f.wrong, f.first, f.last) for f in findings] == [("GAP", 2, 40, 60), ("GAP", 1, 50, 60)]


def test_a_log_that_ends_below_its_own_high_watermark_lost_data_whatever_others_saved():
    (finding,) = resolve(DIRECTORIES, [replica(1, mark=30), replica(2, end=80)], [])
    assert (finding.kind, finding.wrong, finding.first, finding.last) == ("COMMITTED_LOSS", 2, 80, 99)


def test_index_lies_behind_a_hole_are_its_consequence():
    lie = ReplicaFault("INDEX_LIE", "t", 0, 2, 0, 8, 70, 70, -1, ".index", "entry 1")
    (finding,) = resolve(DIRECTORIES, [replica(1), replica(2)], [gap(2, 40, 41), lie])
    assert finding.kind == "COMMITTED_LOSS"


def test_what_a_lost_tail_or_segment_makes_wrong_is_its_consequence():
    """Of the tail that is all that indexes say behind it, committed or not."""
    beyond = ReplicaFault("INDEX_LIE", "t", 0, 2, 60, 8, 104, 104, -1, ".index", "lies beyond the last batch")
    (finding,) = resolve(DIRECTORIES, [replica(1), replica(2, end=80)], [beyond])
    assert (finding.kind, finding.first) == ("COMMITTED_LOSS", 80)
    lie = ReplicaFault("INDEX_LIE", "t", 0, 2, 0, 8, 44, 44, -1, ".index", "lies beyond the last batch")
    (finding,) = resolve(DIRECTORIES, [replica(1, start=50), replica(2)], [gap(2, 40, 60), lie])
    assert (finding.kind, finding.first) == ("COMMITTED_LOSS", 50)


def test_lost_records_explain_lies_behind_them_wherever_they_were():
    """What is compared record by record knows no segment."""
    lost = replace(gap(2, 40, 41), segment=None, position=None, file="")  # type: ignore[arg-type]
    lie = ReplicaFault("INDEX_LIE", "t", 0, 2, 0, 8, 70, 70, -1, ".index", "entry 1")
    (finding,) = resolve(DIRECTORIES, [replica(1), replica(2)], [lost, lie])
    assert finding.kind == "COMMITTED_LOSS"


def test_a_hole_explains_no_lie_of_another_segment_and_none_of_epochs():
    lie = ReplicaFault("INDEX_LIE", "t", 0, 2, 64, 8, 70, 70, -1, ".index", "entry 1")
    epochs = ReplicaFault("EPOCH_CACHE_LIE", "t", 0, 2, 0, 50, 30, 39, 1, ".log", "the checkpoint says epoch 2")
    findings = resolve(DIRECTORIES, [replica(1), replica(2)], [gap(2, 40, 41), lie, epochs])
    assert [f.kind for f in findings] == ["EPOCH_CACHE_LIE", "COMMITTED_LOSS", "INDEX_LIE"]


def test_rot_hides_no_checkpoint_that_is_missing():
    rot = ReplicaFault("BIT_ROT", "t", 0, 2, 0, 400, 10, 11, 1, ".log", "CRC")
    without = replace(replica(2), fault="EPOCH_CACHE_LIE", detail="the epoch checkpoint is missing or empty")
    findings = resolve(DIRECTORIES, [replica(1), without], [rot])
    assert [f.kind for f in findings] == ["EPOCH_CACHE_LIE", "BIT_ROT"]


def test_a_divergence_explains_what_indexes_and_epochs_say_of_it_and_no_more():
    within = ReplicaFault("EPOCH_CACHE_LIE", "t", 0, 2, 0, 50, 10, 11, 1, ".log", "the checkpoint says epoch 2")
    digest = ReplicaFault("INDEX_LIE", "t", 0, 2, 0, 12, 8, 15, -1, ".digest", "entry 1")
    index = replace(digest, file=".timeindex", first=12, last=12)
    wider = replace(within, first=9)
    differs = mismatch((1, 1, 7), (2, 1, 8), (3, 1, 7))
    replicas = [replica(number) for number in DIRECTORIES]
    findings = resolve(DIRECTORIES, replicas, [within, digest, index], [differs])
    assert [(f.kind, f.first) for f in findings] == [("VALUE_MISMATCH", 10), ("INDEX_LIE", 12)]
    findings = resolve(DIRECTORIES, replicas, [wider], [differs])
    assert [(f.kind, f.first) for f in findings] == [("EPOCH_CACHE_LIE", 9), ("VALUE_MISMATCH", 10)]


def test_holes_that_adjoin_are_one():
    """A batch at the end of a segment, and the one with which the next one would begin."""
    findings = resolve(DIRECTORIES, [replica(1), replica(2)], [gap(2, 40, 41), gap(2, 42, 49), gap(2, 60, 61)])
    assert [(f.first, f.last, f.batches) for f in findings] == [(40, 49, 2), (60, 61, 1)]


def test_a_replica_that_cannot_be_read_there_has_not_what_another_one_lost():
    unread = ReplicaFault("UNREADABLE", "t", 0, 1, 30, 0, 30, 59, -1, ".log", "Input/output error")
    findings = resolve(DIRECTORIES, [replica(1), replica(2)], [gap(2, 40, 41), unread])
    assert [f.kind for f in findings] == ["UNREADABLE", "GAP"]


def test_a_batch_at_the_end_of_the_segment_before_its_own_shifts_the_sum_there():
    twice = replace(gap(2, 40, 41), kind="REPEATED")
    interval = Interval("t", 0, "bytes", 30, 39, (1, 2), (800, 890))
    (finding,) = resolve(DIRECTORIES, [replica(1), replica(2)], [twice], [], [interval])
    assert finding.kind == "GAP"


def test_a_torn_write_behind_the_log_end_of_a_replica_that_lags_is_no_rot():
    torn = ReplicaFault("BIT_ROT", "t", 0, 2, 0, 900, 80, 80, -1, ".log", "batch magic 90 is not 2")
    assert resolve(DIRECTORIES, [replica(1), replica(2, end=80, mark=70)], [torn]) == []
    (finding,) = resolve(DIRECTORIES, [replica(1), replica(2, end=80, mark=90)], [torn])
    assert (finding.kind, finding.wrong, finding.first) == ("BIT_ROT", 2, 80)


def test_a_torn_write_is_no_reason_for_an_epoch_checkpoint_that_lies():
    torn = ReplicaFault("BIT_ROT", "t", 0, 2, 0, 900, 80, 80, -1, ".log", "batch magic 90 is not 2")
    lost = replace(replica(2, end=80, mark=70), fault="EPOCH_CACHE_LIE", detail="the epoch checkpoint is missing")
    (finding,) = resolve(DIRECTORIES, [replica(1), lost], [torn])
    assert (finding.kind, finding.wrong, finding.first, finding.last) == ("EPOCH_CACHE_LIE", 2, 0, 79)


def test_what_cannot_be_read_hides_no_lie_and_without_digests_no_loss():
    unread = ReplicaFault("NO_DIGESTS", "t", 0, 2, 0, 0, 0, 99, -1, ".digest", "no digest index")
    lie = ReplicaFault("INDEX_LIE", "t", 0, 2, 0, 8, 44, 44, -1, ".index", "entry 1")
    findings = resolve(DIRECTORIES, [replica(1), replica(2, end=80)], [unread, lie])
    assert [f.kind for f in findings] == ["UNREADABLE", "INDEX_LIE", "COMMITTED_LOSS"]
    assert "--level index" in findings[0].remedy
    nothing_known = replace(replica(2), high_watermark=None)
    findings = resolve(DIRECTORIES, [replica(1), nothing_known], [lie])
    assert [f.kind for f in findings] == ["UNREADABLE", "INDEX_LIE"]


def test_a_batch_that_others_have_otherwise_because_it_is_rotten_is_told_once():
    rot = ReplicaFault("BIT_ROT", "t", 0, 2, 0, 400, 10, 11, 1, ".log", "CRC")
    (finding,) = resolve(DIRECTORIES, [replica(1), replica(2)], [rot], [mismatch((1, 1, 7), (2, 1, 8))])
    assert (finding.kind, finding.wrong) == ("BIT_ROT", 2)
    longer = replace(mismatch((1, 1, 7), (2, 1, 8)), last=30)
    both = resolve(DIRECTORIES, [replica(1), replica(2)], [rot], [longer])
    assert [f.kind for f in both] == ["BIT_ROT", "VALUE_MISMATCH"]


def test_offsets_that_come_twice_are_not_lost():
    twice = replace(gap(2, 40, 41), kind="REPEATED", detail="the offset goes back from 42 to 40")
    (finding,) = resolve(DIRECTORIES, [replica(1), replica(2)], [twice])
    assert (finding.kind, finding.wrong, finding.first, finding.last) == ("GAP", 2, 40, 41)
    assert "copies the partition" in finding.remedy


def test_bit_rot_that_adjoins_is_told_once():
    rot = [ReplicaFault("BIT_ROT", "t", 0, 2, 0, n, n, n, 1, ".log", "CRC") for n in (10, 11, 12, 20)]
    findings = resolve(DIRECTORIES, [replica(1), replica(2)], rot)
    assert [(f.first, f.last, f.batches) for f in findings] == [(10, 12, 3), (20, 20, 1)]


def test_indexes_that_disagree_while_batches_agree_are_reported():
    interval = Interval("t", 0, "bytes", 10, 19, (1, 2), (800, 790))
    (finding,) = resolve(DIRECTORIES, [replica(1), replica(2)], [], [], [interval])
    assert (finding.kind, finding.wrong, finding.replicas) == ("INDEX_LIE", None, (1, 2))
