"""The audit is right on compacted topics, whose replicas were cleaned on their own (CL-10): what compaction took out is
no fault; what else is missing or changed is one, above what was cleaned and below.

`REPLOG_COMPACTED_CASES=1000 pytest tests/audit` tries more cases. A failure prints its seed, what was made and what was
found.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

from spark_jobs.audit.audit import audit
from tests.audit.cases import all_cases
from tests.audit.compaction import CompactedCase, make_compacted
from tests.audit.judge import findings_of, told

pytestmark = [
    pytest.mark.spark,  # all of them: the cases are made once
    pytest.mark.timeout(0 if "REPLOG_COMPACTED_CASES" in os.environ else 1800),
]

CASES = int(os.environ.get("REPLOG_COMPACTED_CASES", "100"))
SHOWN = 10

Made = tuple[dict[int, Path], list[CompactedCase]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return all_cases(range(CASES), tmp_path_factory.mktemp("compacted"), make_compacted)


def test_the_cases_have_everything(made):
    _, cases = made
    wrong = Counter(wrong.name for case in cases for wrong in case.wrong)
    assert len(wrong) == 6, wrong
    assert min(wrong.values()) >= 2, wrong
    assert sum(not case.wrong and case.cleaned_to > 0 for case in cases) > CASES // 10
    ends = [{held.cleaned_to for held in case.held.values()} for case in cases]
    assert sum(len(ends_of_case) > 1 and max(ends_of_case) > 0 for ends_of_case in ends) > CASES // 2
    assert any("copied" in what for case in cases for what in case.done)
    assert any(case.void for case in cases)
    assert any(held.mark < case.cleaned_to for case in cases for held in case.held.values())


@pytest.mark.parametrize("level", ["deep", "batches", "index", "digest"])
def test_what_compaction_took_out_is_no_fault_and_all_else_is(spark, made, level):
    directories, cases = made
    result = audit(spark, directories, level=level)
    assert result.complete
    findings = findings_of(result.findings)
    failures = [
        "\n".join([str(case), *(f"  {what}" for what in wrong), "  all that was found:"])
        + "".join(f"\n    {told(finding)}" for finding in findings[case.topic])
        for case in cases
        if (wrong := case.judge(findings[case.topic], level))
    ]
    assert not failures, f"{len(failures)} of {len(cases)} cases at level {level}:\n" + "\n".join(failures[:SHOWN])
