"""Whether an audit found what it must, and nothing else. Every finding answers for one fault, every fault for one."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from replog.log.batch import HEADER_SIZE, parse_header
from spark_jobs.audit.findings import REMEDIES, UNREADABLE, Finding
from spark_jobs.replicas.faults import NO_DIGESTS
from tests.audit.cases import MISMATCHES, Case, Expected
from tests.audit.levels import MUST, NEVER, SEEN, seen


def findings_of(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """By topic."""
    found: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        found[finding.topic].append(finding)
    return found


def judge(case: Case, findings: list[Finding], level: str) -> list[str]:
    """What is wrong with the findings of this case; nothing if they are right."""
    wrong = [f"{fault}: {told(finding)}" for finding in findings for fault in _faults(case, finding)]
    left = list(findings)
    if level == "digest":
        wrong += _without_digests(case, left)
    for one in case.expected():
        word = seen(case, one.cause, level)
        wanted = [one] if level == "deep" else [one, *case.mistaken_for(one, SEEN[one.cause.name].other_kinds)]
        found = next((finding for finding in left if word != NEVER and any(_is(w, finding) for w in wanted)), None)
        if found is not None:
            left.remove(found)
        elif word == MUST:
            wrong.append(f"not found: {one}")
    return wrong + [f"found though it is not so: {told(finding)}" for finding in left]


def _is(expected: Expected, finding: Finding) -> bool:
    return (
        finding.kind in expected.kinds
        and finding.wrong == expected.wrong
        and finding.first == expected.first
        and (expected.last is None or finding.last == expected.last)
        and (expected.until is None or (finding.last or 0) <= expected.until)
        and (expected.cause.position is None or _position(finding) in (None, expected.cause.position))
    )


def _position(finding: Finding) -> int | None:
    """Of the rotten batch, as the audit says."""
    return finding.evidence[0].position if finding.kind == "BIT_ROT" else None


def _without_digests(case: Case, left: list[Finding]) -> list[str]:
    """Takes away the findings that say, once for each replica that lacks digest indexes, from where on it does."""
    said = [finding for finding in left if finding.kind == UNREADABLE and finding.remedy == REMEDIES[NO_DIGESTS]]
    for finding in said:
        left.remove(finding)
    found = sorted((finding.wrong or -1, finding.first or 0) for finding in said)
    wanted = case.without_digests()
    must = sorted((replica, first) for (replica, first), sure in wanted.items() if sure)
    if set(found) <= wanted.keys() and set(must) <= set(found) and len(set(found)) == len(found):
        return []
    return [f"said to have no digest index (replica, offset): {found}, it is {wanted} (whether it must be said)"]


def _faults(case: Case, finding: Finding) -> Iterable[str]:
    """What no finding may be, whatever was done: without evidence, or with evidence of something else."""
    if not (finding.why and finding.remedy):
        yield "says not why, or not what to do"
    if finding.wrong is not None and finding.wrong not in finding.replicas:
        yield "is not about the replica that it blames"
    if finding.first is not None and (finding.last is None or finding.last < finding.first):
        yield "ends before it begins"
    if not finding.evidence:
        yield "has no evidence"
    mismatch = finding.kind in MISMATCHES
    if {seen.replica for seen in finding.evidence} != set(finding.replicas) or (len(finding.replicas) > 1) != mismatch:
        yield "has evidence of other replicas than it is about"
    for one in finding.evidence:
        path, directory = Path(one.file), case.held[one.replica].directory
        if directory not in (path, *path.parents) and path.parent != directory.parent:
            yield f"has evidence from {path}"
        elif mismatch and _base_offset(path, one.position or 0) != finding.first:
            yield f"has no batch with its first offset at position {one.position} of {path}"


def _base_offset(path: Path, position: int) -> int:
    return parse_header(path.read_bytes()[position : position + HEADER_SIZE]).base_offset


def told(finding: Finding) -> str:
    return f"{finding.kind} wrong={finding.wrong} {finding.first} to {finding.last}: {finding.why}"


def report(case: Case, findings: list[Finding], wrong: list[str]) -> str:
    """All that one needs to see what happened."""
    lines = [str(case), "  expected:", *(f"    {expected}" for expected in case.expected())]
    lines += ["  found:", *(f"    {told(finding)}" for finding in findings)]
    return "\n".join([*lines, *(f"  WRONG: {line}" for line in wrong)])
