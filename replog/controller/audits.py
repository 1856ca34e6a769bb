"""The report of the last audit is kept; each replaces the one before. Pure."""

from dataclasses import replace
from itertools import chain

from replog.controller.decision import Decision
from replog.errors import ErrorCode, ReplogError
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.values import MAX_DIVERGED, VERDICTS, StandingAudit

LAST_MS = 253_402_300_799_999  # the end of the year 9999: most libraries cannot write later dates
MAX_TEXT_LENGTH = 300  # room for a topic's name and a partition's number


def report_audit(image: MetadataImage, audit: StandingAudit, wall_ms: int) -> Decision[None]:
    """Keeps the report, as of `wall_ms` if the auditor's clock is ahead, with the time of the last CONSISTENT one.

    Raises INVALID_REQUEST."""
    if audit.verdict not in VERDICTS:
        raise _invalid(f"verdict {audit.verdict[:40]!r} is none of {', '.join(VERDICTS)}")
    if not 0 < audit.at_ms <= LAST_MS:
        raise _invalid(f"it was made {audit.at_ms} ms after 1970")
    ends = chain.from_iterable((tp.partition, end) for tp, end in audit.verified)
    if min(audit.partitions, audit.diverged_partitions, *ends) < 0:
        raise _invalid("it has a negative number")
    if len(audit.diverged) > MAX_DIVERGED:
        raise _invalid(f"{len(audit.diverged)} diverged partitions, and at most {MAX_DIVERGED} are kept by name")
    texts = [audit.level, *audit.diverged, *(tp.topic for tp, _ in audit.verified)]
    if not all(len(text) <= MAX_TEXT_LENGTH and text.isprintable() for text in texts):
        raise _invalid(f"it names something in more than {MAX_TEXT_LENGTH} printable characters")
    before, at_ms = image.audit.consistent_at_ms if image.audit is not None else 0, min(audit.at_ms, wall_ms)
    consistent_at_ms = at_ms if audit.verdict == "CONSISTENT" else before
    return Decision([Change("audit", None, replace(audit, at_ms=at_ms, consistent_at_ms=consistent_at_ms))], None)


def _invalid(why: str) -> ReplogError:
    return ErrorCode.INVALID_REQUEST.error(f"the report of an audit is refused: {why}")
