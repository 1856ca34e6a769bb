"""Whether an audit found what it must, and nothing else."""

from spark_jobs.audit.findings import Finding
from tests.audit.cases import Case, Expected


def judge(case: Case, findings: list[Finding], level: str) -> list[str]:
    """What is wrong with the findings of this case; nothing if they are right."""
    wrong: list[str] = []
    left = list(findings)
    for expected in case.expected():
        if not expected.kinds[0]:
            continue
        found = next((finding for finding in left if _is(expected, finding)), None)
        if found is None:
            wrong.append(f"not found: {expected}")
        else:
            left.remove(found)
    return wrong + [f"found though it is not so: {told(finding)}" for finding in left]


def _is(expected: Expected, finding: Finding) -> bool:
    return (
        finding.kind in expected.kinds
        and finding.wrong == expected.wrong
        and finding.first == expected.first
        and (expected.last is None or finding.last == expected.last)
    )


def told(finding: Finding) -> str:
    return f"{finding.kind} wrong={finding.wrong} {finding.first} to {finding.last}: {finding.why}"


def report(case: Case, findings: list[Finding], wrong: list[str]) -> str:
    """All that one needs to see what happened."""
    lines = [str(case), "  expected:", *(f"    {expected}" for expected in case.expected())]
    lines += ["  found:", *(f"    {told(finding)}" for finding in findings)]
    return "\n".join([*lines, *(f"  WRONG: {line}" for line in wrong)])
