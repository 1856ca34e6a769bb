"""The audit is right on replicas that are wrong on purpose: at each level all that it promises is found, nothing else.

`REPLOG_AUDIT_CASES=5000 pytest tests/audit` tries more cases, `REPLOG_AUDIT_SEED=1000` those from that seed on. A
failure prints its seed, what was made and what was found.
"""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.audit.audit import audit
from tests.audit import differences
from tests.audit.cases import KAFKA, OURS, Case, all_cases
from tests.audit.history import CODECS
from tests.audit.judge import findings_of, judge, report
from tests.audit.levels import LEVELS, SEEN

pytestmark = [
    pytest.mark.spark,  # all of them: the cases are made once
    pytest.mark.timeout(0 if "REPLOG_AUDIT_CASES" in os.environ else 1800),
]

CASES = int(os.environ.get("REPLOG_AUDIT_CASES", "340"))
FIRST_SEED = int(os.environ.get("REPLOG_AUDIT_SEED", "0"))
SHOWN = 10

Made = tuple[dict[int, Path], list[Case]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """The cases, in memory if there is room: writing them means thousands of fsyncs."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > CASES << 20
    root = Path(tempfile.mkdtemp(dir=memory)) if roomy else tmp_path_factory.mktemp("cases")
    yield all_cases(range(FIRST_SEED, FIRST_SEED + CASES), root)
    shutil.rmtree(root)


def test_the_cases_have_every_fault_and_every_difference_in_both_layouts(made):
    _, cases = made
    for layout in (OURS, KAFKA):
        of_layout = [case for case in cases if case.layout == layout]
        made_wrong = Counter(cause.name for case in of_layout for cause in case.causes)
        assert set(made_wrong) == set(SEEN), (layout, set(SEEN) ^ set(made_wrong))
        told = " ".join(what for case in of_layout for what in case.done)
        steps = [*differences.PLANS, *differences.FILES, differences.torn_write]
        missing = [name for step in steps if (name := step.__name__.replace("_", " ")) not in told]
        assert missing == ([] if layout == OURS else ["no digest index"]), layout
    assert sum(not case.causes for case in cases) > len(cases) // 10
    of_one = [{cause.name for cause in case.of(replica)} for case in cases for replica in case.held]
    assert sum(len(names) > 1 for names in of_one) > len(cases) // 4
    assert sum(len({cause.replica for cause in case.causes}) > 1 for case in cases) > len(cases) // 20
    written = [entry for case in cases for entry in case.truth.values()]
    assert {entry.codec for entry in written} == set(CODECS)
    assert {entry.commits for entry in written} == {None, True, False}


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_wrong_is_found_and_nothing_else(spark, made, level):
    directories, cases = made
    result = audit(spark, directories, [case.topic for case in cases], level)
    assert result.complete
    findings = findings_of(result.findings)
    failures = [
        report(case, findings[case.topic], wrong)
        for case in cases
        if (wrong := judge(case, findings[case.topic], level))
    ]
    assert not failures, f"{len(failures)} of {len(cases)} cases at level {level}:\n" + "\n".join(failures[:SHOWN])
