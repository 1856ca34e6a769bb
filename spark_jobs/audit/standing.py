"""Reports a round of `replog audit follow` to the cluster, whose metrics, console and `cluster describe` show it."""

import sys
from collections.abc import Iterable
from dataclasses import replace
from time import monotonic

from replog.client import SyncAdmin
from replog.errors import ReplogError
from replog.metadata.values import MAX_DIVERGED, StandingAudit
from replog.rpc.limits import MAX_VERIFIED
from spark_jobs.audit.findings import AuditFinding
from spark_jobs.audit.since import Saved
from spark_jobs.audit.text import name_of

TIMEOUT_MS = 10_000
AGAIN_S = 30.0  # a report without news waits this long, since every broker must make it durable


def standing(
    verdict: str, level: str, at_ms: int, saved: Saved | None, findings: Iterable[AuditFinding]
) -> StandingAudit:
    """Return the report of a round; one that failed has the `saved` of the round before."""
    verified = sorted((tp, each.verified_to) for tp, each in saved.partitions.items()) if saved is not None else []
    diverged = sorted({name_of(finding.topic, finding.partition) for finding in findings})
    return StandingAudit(
        verdict=verdict,
        level=level,
        at_ms=at_ms,
        verified=tuple(verified[:MAX_VERIFIED]),
        partitions=len(verified),
        diverged=tuple(diverged[:MAX_DIVERGED]),
        diverged_partitions=len(diverged),
    )


class Reporter:
    """Reports to the cluster of `bootstrap`. A failure is printed once, and does not stop the audit."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._last: StandingAudit | None = None  # its time and offsets are blank, since they are no news
        self._at_s = 0.0
        self._trouble = ""

    def __call__(self, audit: StandingAudit) -> None:
        now_s = monotonic()
        news = replace(audit, at_ms=0, verified=())
        if news == self._last and now_s < self._at_s + AGAIN_S:
            return
        try:
            with SyncAdmin(self._bootstrap, timeout_ms=TIMEOUT_MS) as admin:
                admin.report_audit(audit)
        except ReplogError as error:
            if error.message != self._trouble:
                print(f"the verdict is not reported to {self._bootstrap}: {error}", file=sys.stderr)
            self._trouble = error.message
            return
        self._last, self._at_s, self._trouble = news, now_s, ""
