"""Which levels of the audit must see each fault, and why the others need not.

What a level says of a fault is what level deep says, or nothing: never less exact. Only the class may be another one
where a level cannot know better (`other_kinds`).
"""

from dataclasses import dataclass

from tests.audit.cases import MISMATCHES, Case, Cause, Held
from tests.audit.expected import Outlook

LEVELS = ("deep", "batches", "index", "digest")

MUST = "it is found"
IF_READ = "it is found, or not: it depends on which headers this level happens to read"
NEVER = "it is not found"
COMPARED = "it is found if a sound replica has the same offsets, and sums of bytes or digests differ"
VISITED = "it is found if a header is concerned that this level reads, even that of an index entry"
DIGESTS = "it is found if the digest indexes are there"
SHARED = "it is found if another replica has that batch too"


@dataclass(frozen=True)
class Row:
    """What levels other than deep say."""

    batches: str
    index: str
    digest: str
    why: str
    other_kinds: tuple[str, ...] = ()


_SUMS = "sums show it, and then headers; without digest indexes these are of sizes, which may be equal"
_CRC = "the CRC of bytes is computed only where headers do not fit"
_VISITED = "headers are read where index entries point, and where something is wrong; the others are not"
_BELIEVED = "digest indexes are believed, and other files not read"

SEEN = {
    "value, same size": Row(MUST, COMPARED, COMPARED, _SUMS),
    "value, other size": Row(MUST, COMPARED, COMPARED, _SUMS),
    "other batches": Row(MUST, COMPARED, COMPARED, _SUMS),
    "other producer": Row(MUST, COMPARED, COMPARED, _SUMS),
    "other codec": Row(MUST, COMPARED, COMPARED, _SUMS),
    "divergent suffix": Row(MUST, COMPARED, COMPARED, _SUMS),
    "batch of another epoch": Row(MUST, COMPARED, COMPARED, _SUMS),
    "changed epoch": Row(MUST, VISITED, IF_READ, _VISITED),
    "rotten record": Row(NEVER, NEVER, NEVER, _CRC),
    "rotten header": Row(IF_READ, IF_READ, IF_READ, _CRC, other_kinds=("VALUE_MISMATCH",)),
    "rotten CRC": Row(SHARED, IF_READ, IF_READ, _CRC, other_kinds=("VALUE_MISMATCH",)),
    "rotten length": Row(MUST, IF_READ, IF_READ, _VISITED),
    "rotten magic": Row(MUST, VISITED, IF_READ, _VISITED),
    "rotten base offset": Row(MUST, VISITED, IF_READ, _VISITED),
    "zeros": Row(VISITED, IF_READ, IF_READ, _CRC),
    "lost batch": Row(MUST, COMPARED, IF_READ, _VISITED),
    "lost tail": Row(MUST, MUST, MUST, ""),
    "lost segment": Row(MUST, MUST, DIGESTS, "the last digest entry says where a segment ends"),
    "emptied segment": Row(MUST, MUST, MUST, ""),
    "lost first segment": Row(NEVER, NEVER, NEVER, "it cannot be told from retention, at level deep neither"),
    "lost replica": Row(MUST, MUST, MUST, ""),
    "gap": Row(MUST, IF_READ, IF_READ, _VISITED),
    "repeated batch": Row(MUST, IF_READ, IF_READ, _VISITED),
    "epoch begins elsewhere": Row(MUST, VISITED, IF_READ, _VISITED),
    "other epoch": Row(MUST, VISITED, IF_READ, _VISITED),
    "missing epoch": Row(MUST, VISITED, IF_READ, _VISITED),
    "unusable epochs": Row(MUST, MUST, MUST, ""),
    "epochs beyond the log end": Row(MUST, MUST, MUST, ""),
    "unreadable log": Row(MUST, MUST, DIGESTS, "behind a segment that has no digest index nothing is read"),
    "unreadable index": Row(MUST, MUST, IF_READ, _BELIEVED),
    "unreadable epochs": Row(MUST, MUST, MUST, ""),
    "no high watermark": Row(MUST, MUST, MUST, ""),
}


def seen(case: Case, cause: Cause, level: str) -> str:
    """What the level says of this cause in this case: `MUST`, `IF_READ` or `NEVER`."""
    if level == "deep":
        return MUST
    word = str(getattr(SEEN[cause.name], level))
    held, outlook = case.held[cause.replica], Outlook(case, case.causes)
    if word == COMPARED:
        is_seen = any(_sums_differ(outlook, case, cause, held, other, level) for other in case.others(cause.replica))
    elif word == VISITED:
        unusable = any(other.name == "unusable epochs" for other in case.of(cause.replica))
        is_seen = cause.visited and not (unusable and cause.name == "changed epoch")
    elif word == SHARED:
        is_seen = _is_shared(case, cause)
    elif word == DIGESTS:
        unread = [other for other in case.of(cause.replica) if other.name == "unreadable index"]
        known = held.digests_until is None or (cause.first or 0) <= held.digests_until
        is_seen = cause.whole or (known and unread in ([], [cause]))
    else:
        return word
    return MUST if is_seen else IF_READ


def _is_shared(case: Case, cause: Cause) -> bool:
    """Whether the batch is compared with that of another replica, if what is wrong with it is not seen."""
    assert cause.first is not None
    outlook = Outlook(case, [other for other in case.causes if other is not cause])
    return outlook.knows(case.held[cause.replica], cause.first) and any(
        outlook.knows(other, cause.first) for other in case.others(cause.replica)
    )


def _sums_differ(outlook: Outlook, case: Case, cause: Cause, one: Held, other: Held, level: str) -> bool:
    """Whether sums over what both know to be committed differ, and nothing but this keeps them from being compared."""
    assert cause.first is not None
    assert cause.last is not None
    if case.of(other.replica) or case.of(one.replica) != [cause]:
        return False
    changed = cause.kind in MISMATCHES
    starts = [e.first for e in one.entries if cause.first <= e.first <= cause.last] if changed else [cause.first]
    if not any(outlook.knows(other, first) for first in starts):
        return False
    if one.digests_until is None is other.digests_until and changed:
        return True
    start, end = max(one.kept_from, other.kept_from), min(one.mark or 0, other.mark or 0)
    return level == "index" and outlook.size(one, start, end) != outlook.size(other, start, end)
