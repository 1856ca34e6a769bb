"""Whether an audit found what it must, and nothing else."""

from collections import defaultdict
from collections.abc import Iterable

from spark_jobs.audit.findings import UNREADABLE, Finding
from spark_jobs.replicas.digests import NO_DIGESTS
from tests.audit.cases import Case, Expected
from tests.audit.levels import EXACT, NEVER, ROUGH, seen


def findings_of(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """By topic."""
    found: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        found[finding.topic].append(finding)
    return found


def judge(case: Case, findings: list[Finding], level: str) -> list[str]:
    """What is wrong with the findings of this case; nothing if they are right."""
    wrong: list[str] = []
    left = [finding for finding in findings if not (level == "digest" and NO_DIGESTS in finding.why)]
    expected = case.expected()
    for one in sorted(expected, key=lambda one: seen(case, one.cause, level) != EXACT):
        word = seen(case, one.cause, level)
        if word == EXACT:
            exact = next((finding for finding in left if _is(one, finding)), None)
            if exact is None:
                wrong.append(f"not found: {one}")
            else:
                left.remove(exact)
        elif word != NEVER:
            rough = [finding for finding in left if _concerns(one, finding)]
            left = [finding for finding in left if finding not in rough]
            if word == ROUGH and not rough:
                wrong.append(f"nothing found of: {one}")
    return wrong + [f"found though it is not so: {told(finding)}" for finding in left]


def _is(expected: Expected, finding: Finding) -> bool:
    return (
        finding.kind in expected.kinds
        and finding.wrong == expected.wrong
        and finding.first == expected.first
        and (expected.last is None or finding.last == expected.last)
    )


def _concerns(expected: Expected, finding: Finding) -> bool:
    """Of that replica, and of offsets there, whatever it is called."""
    if finding.wrong not in (None, expected.wrong, expected.cause.replica):
        return False
    if expected.cause.replica not in finding.replicas:
        return False
    if expected.first is None or finding.first is None or finding.last is None or finding.kind == UNREADABLE:
        return True
    return finding.last >= expected.first - NEAR and (expected.last is None or finding.first <= expected.last + NEAR)


NEAR = 80  # offsets: more than an index interval of these cases holds


def told(finding: Finding) -> str:
    return f"{finding.kind} wrong={finding.wrong} {finding.first} to {finding.last}: {finding.why}"


def report(case: Case, findings: list[Finding], wrong: list[str]) -> str:
    """All that one needs to see what happened."""
    lines = [str(case), "  expected:", *(f"    {expected}" for expected in case.expected())]
    lines += ["  found:", *(f"    {told(finding)}" for finding in findings)]
    return "\n".join([*lines, *(f"  WRONG: {line}" for line in wrong)])
