"""What an audit reports to the controller."""

from dataclasses import replace

import pytest

from replog.errors import ErrorCode
from replog.metadata.values import MAX_DIVERGED, StandingAudit
from replog.topic import TopicPartition

EQUAL = StandingAudit("CONSISTENT", "deep", 5000, ((TopicPartition("t", 0), 70),), 1, (), 0)
DIVERGED = replace(EQUAL, verdict="DIVERGED", at_ms=6000, diverged=("t-0",), diverged_partitions=1)


def test_the_last_report_counts_and_when_replicas_were_last_equal_is_kept(cluster):
    assert cluster.image.audit is None
    cluster.do(cluster.state.report_audit(DIVERGED))
    assert cluster.image.audit == DIVERGED, "never equal so far"
    cluster.do(cluster.state.report_audit(EQUAL))
    assert cluster.image.audit == replace(EQUAL, consistent_at_ms=5000)
    cluster.do(cluster.state.report_audit(DIVERGED))
    assert cluster.image.audit == replace(DIVERGED, consistent_at_ms=5000)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"verdict": "FINE"}, "verdict 'FINE' is none of CONSISTENT, DIVERGED"),
        ({"at_ms": 0}, "0 ms after 1970"),
        ({"at_ms": 1_700_000_000_000_000}, "1700000000000000 ms after 1970"),
        ({"partitions": -1}, "negative"),
        ({"verified": ((TopicPartition("t", 0), -7),)}, "negative"),
        ({"diverged": ("t-0",) * (MAX_DIVERGED + 1)}, f"{MAX_DIVERGED + 1} diverged partitions"),
        ({"level": "\n"}, "printable"),
        ({"diverged": ("t" * 301,)}, "300 printable"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_a_report_that_makes_no_sense_is_refused(cluster, refused, change, words):
    with refused(ErrorCode.INVALID_REQUEST, "the report of an audit is refused", words):
        cluster.state.report_audit(replace(EQUAL, **change))
