"""Whether an audit found what it must, and nothing else. Every finding answers for one fault, every fault for one."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from replog.log.formats.batch import HEADER_SIZE, parse_header
from spark_jobs.audit.findings import REMEDIES, UNREADABLE, AuditFinding
from spark_jobs.replicas.faults import NO_DIGESTS
from tests.audit.cases import MISMATCHES, Case, Cause
from tests.audit.expected import Expected, Outlook
from tests.audit.levels import MUST, NEVER, SEEN, seen
from tests.audit.replica_files import lacks_digests


def findings_of(findings: Iterable[AuditFinding]) -> dict[str, list[AuditFinding]]:
    """By topic."""
    by_topic: dict[str, list[AuditFinding]] = defaultdict(list)
    for finding in findings:
        by_topic[finding.topic].append(finding)
    return by_topic


def judge(case: Case, findings: list[AuditFinding], level: str) -> list[str]:
    """What is wrong with the findings of this case; nothing if they are right."""
    wrong = [f"{fault}: {told(finding)}" for finding in findings for fault in _faults(case, finding)]
    left = list(findings)
    if level == "digest":
        wrong += _without_digests(case, left)
    expected = Outlook(case, case.causes).expected()
    if level != "deep":
        return [*wrong, *_seen_in_part(case, expected, left, level)]
    for one in expected:
        match = next((finding for finding in left if _is(one, finding)), None)
        if match is None:
            wrong.append(f"not found: {one}")
        else:
            left.remove(match)
    return wrong + [f"found though it is not so: {told(finding)}" for finding in left]


def _seen_in_part(case: Case, expected: list[Expected], findings: list[AuditFinding], level: str) -> Iterable[str]:
    """A level that does not see all that is wrong tells of the rest as if that was all."""
    words = {cause: seen(case, cause, level) for cause in case.causes}
    possible = [one for one in _possible(case, expected) if any(words[cause] != NEVER for cause in one.causes)]
    seen_causes: set[Cause] = set()
    for number, finding in enumerate(findings):
        is_one = [one for one in possible if _is(one, finding) or _begins(one, finding)]
        if level == "digest":
            is_one += [one for one in possible if _begins_late(case, one, finding)]
        seen_causes |= {cause for one in is_one for cause in one.causes}
        if not is_one or any(_same(finding, other) for other in findings[:number]):
            yield f"found though it is not so: {told(finding)}"
    for one in expected:
        if any(words[cause] == MUST and cause not in seen_causes for cause in one.causes):
            yield f"not found: {one}"


def _possible(case: Case, expected: list[Expected]) -> Iterator[Expected]:
    """What may be told by a level that sees all that is wrong, or some of it, or of some batches that are rotten only
    that others have another one."""
    yield from expected
    mistaken = [cause for cause in case.causes if SEEN[cause.name].other_kinds]
    for count in range(1, len(case.causes) + 1):
        for causes in itertools.combinations(case.causes, count):
            for otherwise in _parts([cause for cause in causes if cause in mistaken]):
                for one in Outlook(case, causes, otherwise).expected():
                    yield one
                    if set(otherwise) & set(one.causes):
                        yield replace(one, last=None)
                        yield replace(one, last=None, wrong=one.causes[0].replica)  # its own digests contradict it


def _parts(causes: list[Cause]) -> Iterator[tuple[Cause, ...]]:
    for count in range(len(causes) + 1):
        yield from itertools.combinations(causes, count)


def _same(one: AuditFinding, other: AuditFinding) -> bool:
    """Whether they tell of the same."""
    if (one.kind, one.wrong) != (other.kind, other.wrong) or one.first is None or other.first is None:
        return (one.kind, one.wrong, one.first) == (other.kind, other.wrong, other.first)
    return one.first <= (other.last or 0) and other.first <= (one.last or 0)


def _begins(expected: Expected, finding: AuditFinding) -> bool:
    """Whether it is the beginning of a divergence: its other batches may be beside what was read."""
    if finding.kind not in MISMATCHES or (finding.last or 0) > (expected.last or 0):
        return False
    return _is(replace(expected, last=finding.last), finding)


def _begins_late(case: Case, expected: Expected, finding: AuditFinding) -> bool:
    """Whether it is a divergence from where another replica begins on: one that shows its beginning has no digests."""
    if finding.kind not in MISMATCHES or finding.first not in {held.log_start for held in case.held.values()}:
        return False
    late = replace(expected, first=finding.first)
    return (expected.first or 0) < finding.first and (_is(late, finding) or _begins(late, finding))


def _goes_on(expected: Expected, finding: AuditFinding) -> bool:
    """Whether it takes in more of the divergence: batches that begin elsewhere are compared where a replica begins."""
    end = max(cause.last or 0 for cause in expected.causes)
    return finding.kind in MISMATCHES and (expected.last or 0) < (finding.last or 0) <= end


def _is(expected: Expected, finding: AuditFinding) -> bool:
    return (
        finding.kind in expected.kinds
        and finding.wrong == expected.wrong
        and finding.first == expected.first
        and (expected.last is None or finding.last == expected.last or _goes_on(expected, finding))
        and (expected.position is None or _position(finding) in (None, expected.position))
    )


def _position(finding: AuditFinding) -> int | None:
    """Of the rotten batch, as the audit says."""
    return finding.evidence[0].position if finding.kind == "BIT_ROT" else None


def _without_digests(case: Case, left: list[AuditFinding]) -> list[str]:
    """Takes away the findings that say, once for each replica that lacks digest indexes, from where on it does."""
    said = [finding for finding in left if finding.kind == UNREADABLE and finding.remedy == REMEDIES[NO_DIGESTS]]
    for finding in said:
        left.remove(finding)
    lacking = sorted((finding.wrong or -1, finding.first or 0) for finding in said)
    wanted = _lacking_digests(case)
    must = sorted((replica, first) for (replica, first), sure in wanted.items() if sure)
    if set(lacking) <= wanted.keys() and set(must) <= set(lacking) and len(set(lacking)) == len(lacking):
        return []
    return [f"said to have no digest index (replica, offset): {lacking}, it is {wanted} (whether it must be said)"]


def _lacking_digests(case: Case) -> dict[tuple[int, int], bool]:
    """Replica and segment from which on digest indexes do not say anything: whether the files are missing."""
    lacking = {}
    for held in case.held.values():
        segment = None if any(cause.whole for cause in case.of(held.replica)) else lacks_digests(held.directory)
        if segment is not None:
            lacking[held.replica, int(segment.stem)] = not segment.with_suffix(".digest").exists()
    return lacking


def _faults(case: Case, finding: AuditFinding) -> Iterable[str]:
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


def told(finding: AuditFinding) -> str:
    return f"{finding.kind} wrong={finding.wrong} {finding.first} to {finding.last}: {finding.why}"


def report(case: Case, findings: list[AuditFinding], wrong: list[str]) -> str:
    """All that one needs to see what happened."""
    lines = [str(case), "  expected:", *(f"    {expected}" for expected in Outlook(case, case.causes).expected())]
    lines += ["  found:", *(f"    {told(finding)}" for finding in findings)]
    return "\n".join([*lines, *(f"  WRONG: {line}" for line in wrong)])
