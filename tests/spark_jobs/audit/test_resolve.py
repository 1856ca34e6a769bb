"""Blame, causes and consequences, without Spark."""

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from replog.log.files.names import segment_file_name
from spark_jobs.audit.findings import REMEDIES, UNDECIDED, AuditFinding, Interval, Mismatch, ReplicaFault, Seen, View
from spark_jobs.audit.resolve import MORE, resolve
from spark_jobs.replicas.describe import Replica

DIRECTORIES = {replica: (Path(f"/data/{replica}"),) for replica in (1, 2, 3, 4)}


def replica(number: int, *, end: int = 100, mark: int = 100, start: int = 0, **more: Any) -> Replica:
    return replace(Replica(number, "t", 0, start, mark, end, 1000, 1), **more)


def differ(*values: tuple[int, int, int], first: int = 10, last: int = 11, **more: Any) -> Mismatch:
    """Of (replica, epoch, CRC)."""
    views = tuple(View(number, 11, epoch, crc, 80, 0, 400) for number, epoch, crc in values)
    pairs = tuple((a[0], b[0]) for a, b in combinations(values, 2) if a[1:] != b[1:])
    return replace(Mismatch("VALUE_MISMATCH", "t", 0, first, last, 1, views, pairs), **more)


def fault(kind: str, first: int, last: int, *, of: int = 2, file: str = ".log", **more: Any) -> ReplicaFault:
    position, epoch = (400, 1) if file == ".log" else (8, -1)
    return replace(ReplicaFault(kind, "t", 0, of, 0, position, first, last, epoch, file, "the detail"), **more)


def gap(first: int, last: int, **more: Any) -> ReplicaFault:
    return fault("GAP", first, last, **more)


def rot(first: int, last: int, **more: Any) -> ReplicaFault:
    return fault("BIT_ROT", first, last, **more)


def lie(first: int, last: int, file: str = ".index", **more: Any) -> ReplicaFault:
    return fault("INDEX_LIE", first, last, file=file, **more)


def wrong_epochs(first: int, last: int) -> ReplicaFault:
    return fault("EPOCH_CACHE_LIE", first, last)


ONE, TWO = replica(1), replica(2)
LAGS = replica(2, end=80, mark=70)
TORN = rot(80, 80, epoch=-1)
NO_CHECKPOINT = {"fault": "EPOCH_CACHE_LIE", "detail": "the epoch checkpoint is missing"}
TWICE = fault("REPEATED", 40, 41)
PARTED = differ((1, 1, 7), (2, 1, 8))


class Row(NamedTuple):
    name: str
    replicas: list[Replica]
    seen: list[ReplicaFault | Mismatch | Interval]
    findings: str  # class, the replica that is wrong, first and last offset of each


# fmt: off
ROWS = [
    # -- whom batches accuse
    Row("the majority is believed", [], [differ((1, 1, 7), (2, 1, 8), (3, 1, 7))], "VALUE_MISMATCH 2 10-11"),
    Row("a replica that contradicts itself is wrong", [], [lie(8, 15, ".digest", of=1), PARTED],
        "VALUE_MISMATCH 1 10-11"),
    Row("without evidence nobody is blamed", [], [PARTED], "VALUE_MISMATCH None 10-11"),
    Row("the older epoch was replaced", [], [differ((1, 2, 7), (2, 1, 8))], "VALUE_MISMATCH 2 10-11"),
    Row("a divergence that shows again where replica 3 begins, which agrees with 1, is told once", [],
        [differ((1, 1, 5), (2, 1, 6), (3, 1, 5), first=50, last=90, pairs=((2, 3),)),
         differ((1, 1, 7), (2, 1, 8), last=90)],
        "VALUE_MISMATCH 2 10-90"),
    Row("disagreements without a replica in common are told apart", [],
        [differ((1, 1, 7), (2, 1, 7), (3, 1, 8), last=90), differ((1, 1, 5), (2, 1, 6), first=50, last=51)],
        "VALUE_MISMATCH 3 10-90; VALUE_MISMATCH None 50-51"),
    Row("who parted from both others, with the oldest epoch, is not blamed for what these have of their own", [],
        [differ((1, 1, 7), (2, 2, 8), (3, 2, 8), last=90),
         differ((1, 1, 7), (2, 2, 8), (3, 2, 9), first=50, last=51, pairs=((2, 3),))],
        "VALUE_MISMATCH 1 10-90; VALUE_MISMATCH None 50-51"),
    Row("replicas that parted before do not agree against a third, which begins behind", [],
        [differ((1, 1, 7), (2, 1, 8), last=90),
         differ((1, 1, 7), (2, 1, 8), (3, 1, 9), first=50, last=90, pairs=((1, 3), (2, 3)))],
        "VALUE_MISMATCH None 10-90; VALUE_MISMATCH None 50-90"),
    Row("two that contradict themselves do not outvote the only sound one", [],
        [*(lie(8, 15, ".digest", of=of) for of in (1, 2)), differ((1, 1, 7), (2, 1, 7), (3, 1, 8))],
        "VALUE_MISMATCH 1 10-11; VALUE_MISMATCH 2 10-11"),
    Row("nor do they if they differ from each other, or the epoch checkpoint says so", [],
        [lie(8, 15, ".digest", of=1), wrong_epochs(10, 11), differ((1, 1, 7), (2, 1, 9), (3, 1, 8))],
        "VALUE_MISMATCH 1 10-11; VALUE_MISMATCH 2 10-11"),
    Row("who contradicts itself has no vote against one that does not, nor for it", [],
        [lie(8, 15, ".digest", of=1), differ((1, 1, 7), (2, 1, 7), (3, 1, 8))], "VALUE_MISMATCH None 10-11"),
    Row("whose batch two others have is not wrong there: its digest is", [ONE, TWO, replica(3), replica(4)],
        [lie(8, 15, ".digest", of=1), differ((1, 1, 7), (2, 1, 7), (3, 1, 7), (4, 1, 8))],
        "INDEX_LIE 1 8-15; VALUE_MISMATCH 4 10-11"),
    Row("a sum behind a replica's own gap does not contradict its batches", [ONE, TWO],
        [gap(4, 5, of=1), lie(8, 15, ".digest", of=1), lie(8, 15, ".digest", of=2), PARTED],
        "COMMITTED_LOSS 1 4-5; VALUE_MISMATCH 2 10-11"),
    Row("if all contradict themselves nobody is blamed", [],
        [*(lie(8, 15, ".digest", of=of) for of in (1, 2)), PARTED], "VALUE_MISMATCH None 10-11"),
    Row("a digest that is wrong far behind says nothing of where replicas part", [],
        [lie(70, 75, ".digest", of=1), differ((1, 1, 7), (2, 1, 7), (3, 1, 8), last=90)],
        "VALUE_MISMATCH 3 10-90; INDEX_LIE 1 70-75"),
    Row("all that are outvoted are named", [], [differ((1, 1, 7), (2, 1, 8), (3, 1, 7), (4, 1, 9))],
        "VALUE_MISMATCH 2 10-11; VALUE_MISMATCH 4 10-11"),
    # -- holes
    Row("a hole that another replica fills is a loss up to what is committed",
        [replica(1, mark=50), replica(2, mark=45)], [gap(40, 60)], "COMMITTED_LOSS 2 40-49"),
    Row("a hole that nobody fills is a gap", [replica(1, start=70), TWO], [gap(40, 60)], "GAP 2 40-60"),
    Row("a hole below the log start was deleted on purpose", [ONE, replica(2, start=61)], [gap(40, 60)], ""),
    Row("and makes no index lie", [ONE, replica(2, start=61)], [gap(40, 60), lie(70, 70)], "INDEX_LIE 2 70-70"),
    Row("who lacks the same offsets from its log start on does not fill a hole", [replica(1, start=50), TWO],
        [gap(40, 60, of=1), gap(40, 60)], "GAP 2 40-60; GAP 1 50-60"),
    Row("a log that ends below its own high watermark lost data whatever others saved",
        [replica(1, mark=30), replica(2, end=80)], [], "COMMITTED_LOSS 2 80-99"),
    Row("holes that adjoin, at the border of segments, are one", [ONE, TWO], [gap(40, 41), gap(42, 49), gap(60, 61)],
        "COMMITTED_LOSS 2 40-49; COMMITTED_LOSS 2 60-61"),
    Row("a replica that cannot be read there has not what another one lost", [ONE, TWO],
        [gap(40, 41), fault("UNREADABLE", 30, 59, of=1)], "UNREADABLE 1 30-59; GAP 2 40-41"),
    Row("offsets that come twice are not lost", [ONE, TWO], [TWICE], "GAP 2 40-41"),
    # -- what is a consequence
    Row("index lies behind a hole", [ONE, TWO], [gap(40, 41), lie(70, 70)], "COMMITTED_LOSS 2 40-41"),
    Row("all that indexes say behind a lost tail", [ONE, replica(2, end=80)], [lie(104, 104, segment=60)],
        "COMMITTED_LOSS 2 80-99"),
    Row("what they say of a lost segment", [replica(1, start=50), TWO], [gap(40, 60), lie(44, 44)],
        "COMMITTED_LOSS 2 50-60"),
    Row("lies behind a lost record, which knows no segment", [ONE, TWO],
        [gap(40, 41, segment=None, position=None, file=""), lie(70, 70)], "COMMITTED_LOSS 2 40-41"),
    Row("but no lie before it, and none of epochs", [ONE, TWO],
        [gap(40, 41), lie(20, 20), lie(70, 70, segment=64), wrong_epochs(30, 39)],
        "INDEX_LIE 2 20-20; EPOCH_CACHE_LIE 2 30-39; COMMITTED_LOSS 2 40-41"),
    Row("rot hides no checkpoint that is missing", [ONE, replica(2, **NO_CHECKPOINT)], [rot(10, 11)],
        "EPOCH_CACHE_LIE 2 0-99; BIT_ROT 2 10-11"),
    Row("a divergence explains what epochs say of it, and may explain what indexes say from there on",
        [ONE, TWO, replica(3)],
        [wrong_epochs(10, 11), lie(8, 15, ".digest"), lie(12, 12, ".timeindex"), lie(12, 12, of=3), lie(9, 9),
         differ((1, 1, 7), (2, 1, 8), (3, 1, 7))],
        "INDEX_LIE 2 9-9; VALUE_MISMATCH 2 10-11; INDEX_LIE 3 12-12"),
    Row("and no more", [ONE, TWO, replica(3)], [wrong_epochs(9, 11), differ((1, 1, 7), (2, 1, 8), (3, 1, 7))],
        "EPOCH_CACHE_LIE 2 9-11; VALUE_MISMATCH 2 10-11"),
    Row("a batch at the end of the segment before its own shifts the sum there", [ONE, TWO],
        [TWICE, Interval("t", 0, "bytes", 30, 39, (1, 2), (800, 890))], "GAP 2 40-41"),
    Row("indexes that disagree while batches agree are reported", [ONE, TWO],
        [Interval("t", 0, "bytes", 10, 19, (1, 2), (800, 790))], "INDEX_LIE None 10-19"),
    Row("one index that disagrees with two others in several places is told once", [ONE, TWO, replica(3)],
        [Interval("t", 0, "bytes", first, first + 9, (1, of), (800, 790)) for first in (10, 20) for of in (2, 3)],
        "INDEX_LIE None 10-19"),
    Row("behind a hole that nobody fills the indexes of its segment alone are not judged", [replica(1, start=70), TWO],
        [gap(40, 60), lie(62, 62), lie(70, 70, segment=64), lie(75, 75, ".txnindex", segment=64)],
        "GAP 2 40-60; INDEX_LIE 2 70-70; INDEX_LIE 2 75-75"),
    Row("indexes that disagree at one offset have no interval that ends before it begins", [ONE, TWO],
        [Interval("t", 0, "bytes", 20, 19, (1, 2), (0, -50))], "INDEX_LIE None 19-19"),
    Row("the entries of one damaged file are one finding", [ONE, TWO],
        [lie(70, 70), lie(40, 40), lie(80, 80), lie(80, 80, segment=80), lie(80, 80, ".timeindex"), lie(80, 80, of=1)],
        "INDEX_LIE 2 40-80; INDEX_LIE 2 80-80; INDEX_LIE 2 80-80; INDEX_LIE 1 80-80"),
    Row("what an entry names beyond its log is told where its segment begins", [ONE, TWO],
        [lie(1 << 30, 1 << 30, segment=60), lie(-7, -7, ".timeindex", segment=60)],
        "INDEX_LIE 2 60-60; INDEX_LIE 2 60-60"),
    Row("a batch that claims offsets without end ends with the partition", [ONE, TWO, replica(3)],
        [differ((1, 1, 7), (2, 1, 8), (3, 1, 7), last=1 << 31)], "VALUE_MISMATCH 2 10-99"),
    Row("what a wrong snapshot makes of the segment that begins with it", [ONE, TWO],
        [lie(30, 30, segment_file_name(60, ".snapshot"), segment=20),
         lie(30, 30, segment_file_name(80, ".snapshot"), segment=60), lie(70, 70, ".txnindex", segment=60),
         lie(75, 75, ".index", segment=60)],
        "INDEX_LIE 2 30-30; INDEX_LIE 2 75-75"),
    Row("of the files that know producers those of the first segment with a fault are judged", [ONE, TWO],
        [lie(70, 70, ".txnindex", segment=60), lie(30, 30, ".txnindex", segment=20),
         lie(70, 70, ".txnindex", segment=60, of=1)],
        "INDEX_LIE 2 30-30; INDEX_LIE 1 70-70"),
    Row("a transaction index that has no transaction of a changed batch is right", [ONE, TWO, replica(3)],
        [lie(11, 11, ".txnindex"), differ((1, 1, 7), (2, 1, 8), (3, 1, 7))], "VALUE_MISMATCH 2 10-11"),
    Row("and shows that the majority was changed", [ONE, TWO, replica(3)],
        [lie(11, 11, ".txnindex"), lie(11, 11, ".txnindex", of=1), differ((1, 1, 7), (2, 1, 7), (3, 1, 8))],
        "VALUE_MISMATCH 1 10-11; VALUE_MISMATCH 2 10-11"),
    # -- rot, and what cannot be read
    Row("a torn write behind the log end of a replica that lags is no rot", [ONE, LAGS], [TORN], ""),
    Row("but it is below what was committed", [ONE, replica(2, end=80, mark=90)], [TORN], "BIT_ROT 2 80-80"),
    Row("a torn write is no reason for an epoch checkpoint that lies", [ONE, replace(LAGS, **NO_CHECKPOINT)], [TORN],
        "EPOCH_CACHE_LIE 2 0-79"),
    Row("a batch that others have otherwise because it is rotten is told once", [ONE, TWO], [rot(10, 11), PARTED],
        "BIT_ROT 2 10-11"),
    Row("but not a divergence that goes on", [ONE, TWO], [rot(10, 11), differ((1, 1, 7), (2, 1, 8), last=30)],
        "BIT_ROT 2 10-11; VALUE_MISMATCH None 10-30"),
    Row("bit rot that adjoins is told once", [ONE, TWO], [rot(10, 10), rot(11, 11), rot(12, 12), rot(20, 20)],
        "BIT_ROT 2 10-12; BIT_ROT 2 20-20"),
    Row("what cannot be read hides no lie, and without digests no loss", [ONE, replica(2, end=80)],
        [fault("NO_DIGESTS", 0, 99), lie(44, 44)], "UNREADABLE 2 0-99; INDEX_LIE 2 44-44; COMMITTED_LOSS 2 80-99"),
    Row("nor does a high watermark that is not known", [ONE, replace(TWO, high_watermark=None)], [lie(44, 44)],
        "UNREADABLE 2 None-None; INDEX_LIE 2 44-44"),
]
# fmt: on


def findings_of(replicas: list[Replica], seen: list[ReplicaFault | Mismatch | Interval]) -> list[AuditFinding]:
    of_kind: list[list[Any]] = [[it for it in seen if isinstance(it, k)] for k in (ReplicaFault, Mismatch, Interval)]
    return resolve(DIRECTORIES, replicas, Seen(*of_kind))


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_each_cause_is_one_finding(row):
    findings = findings_of(row.replicas, row.seen)
    assert "; ".join(f"{f.kind} {f.wrong} {f.first}-{f.last}" for f in findings) == row.findings


@pytest.mark.parametrize(
    ("seen", "why", "remedy"),
    [
        (differ((1, 1, 7), (2, 1, 8), (3, 1, 7)), "replicas 1 and 3 agree, replica 2 is alone", ""),
        (PARTED, "", "nothing tells which is right"),
        (differ((1, 2, 7), (2, 1, 8)), "older leader epoch", ""),
        (TWICE, "", "copies the partition"),
        (wrong_epochs(10, 11), "", "aside"),
        (lie(8, 15), "", "aside"),
        (fault("NO_DIGESTS", 0, 99), "", "--level index"),
    ],
)
def test_a_finding_says_why_and_what_to_do(seen, why, remedy):
    (finding,) = findings_of([ONE, TWO], [seen])
    assert why in finding.why
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    ("seen", "more"),
    [
        ([gap(40, 41)], [False]),
        ([gap(40, 41), lie(20, 20)], [False, False]),
        ([gap(40, 41), lie(70, 70)], [True]),
        ([gap(40, 41), lie(70, 70, of=1)], [False, False]),
        ([gap(40, 41), lie(70, 70), fault("UNREADABLE", 80, 89)], [True, False]),
        ([rot(10, 11), lie(70, 70, segment=64)], [True]),
        ([PARTED, lie(70, 70, of=1)], [True]),
        ([lie(30, 30, ".txnindex", segment=20), lie(70, 70, ".txnindex", segment=60)], [True]),
    ],
)
def test_a_finding_says_that_there_may_be_more_if_something_was_not_judged_beside_it(seen, more):
    assert [finding.why.endswith(MORE) for finding in findings_of([ONE, TWO], seen)] == more


def test_what_adjoins_or_is_in_one_index_is_counted():
    (finding,) = findings_of([ONE, TWO], [lie(40, 40), lie(70, 70), lie(80, 80)])
    assert (finding.batches, finding.why) == (3, "the detail (the first of 3 such faults in this file)")
    findings = findings_of([ONE, TWO], [rot(10, 10), rot(11, 11), rot(12, 12), gap(40, 41), gap(42, 49), gap(60, 61)])
    assert [finding.batches for finding in findings] == [3, 2, 1]


def test_a_remedy_destroys_nothing():
    """What is wrong by a vote may be all that is left of what was acknowledged."""
    for kind, remedy in [*REMEDIES.items(), ("UNDECIDED", UNDECIDED)]:
        assert not re.search(r"\b(remove|delete|overwrite)", remedy), kind
        assert "copies the partition" not in remedy or "aside" in remedy, kind
    assert "aside" not in REMEDIES["GAP"], "a start would cut the log at the hole"
    assert "move {directory} aside" in REMEDIES["INDEX_LIE"], "there may be a hole, too"
