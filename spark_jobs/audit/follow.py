"""The continuous audit: each round audits since the last one, and is reported to the cluster, which shows it.

A round writes its findings under its own number, then the state, atomically. Only the state says what is done: a round
that was cut off is repeated from where it began, so nothing is verified twice and nothing is skipped.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import fields as fields_of
from pathlib import Path
from threading import Lock
from time import monotonic, sleep, time
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from replog.client import SyncAdmin
from replog.command.output import note
from replog.errors import ReplogError
from replog.metadata.values import MAX_DIVERGED, StandingAudit
from replog.rpc.limits import MAX_VERIFIED
from replog.topic import TopicPartition
from spark_jobs.audit.audit import Audit, Where, audit
from spark_jobs.audit.findings import CONSISTENT, DIVERGED, INCONCLUSIVE, AuditFinding
from spark_jobs.audit.report import finding_record, write_findings
from spark_jobs.audit.since import BadSaved, Saved, read_json, write_json
from spark_jobs.audit.text import name_of
from spark_jobs.session import reason

FORMAT, VERSION = "replog audit follow", 1
STATE, FINDINGS = "verified.json", "findings"  # names within the checkpoint directory
MAX_KNOWN = 10_000
TIMEOUT_MS = 10_000  # a report to the cluster takes no longer
AGAIN_S = 30.0  # a report without news waits this long, since every broker must make it durable


@dataclass(frozen=True)
class FollowState:
    """The state after a round."""

    round: int = -1  # the number of the last finished round
    known: tuple[str, ...] = ()  # reported findings that were still there
    saved: Saved | None = None

    def as_json(self) -> dict[str, Any]:
        saved = None if self.saved is None else self.saved.as_json()
        return {"format": FORMAT, "version": VERSION, "round": self.round, "known": self.known, "saved": saved}

    @classmethod
    def from_json(cls, stored: Any) -> "FollowState":
        if (stored["format"], stored["version"]) != (FORMAT, VERSION):
            raise ValueError(f"it is of format {str(stored['format'])[:40]!r}, version {str(stored['version'])[:40]}")
        saved = None if stored["saved"] is None else Saved.from_json(stored["saved"])
        return cls(int(stored["round"]), tuple(map(str, stored["known"])), saved)


def read_state(directory: Path) -> FollowState:
    """Return the state that an earlier run left in the checkpoint directory, or a new one. Raises BadSaved, OSError."""
    remedy = f"move {directory} aside to verify everything again"
    try:
        state: FollowState = read_json(directory / STATE, "state of a follow", FollowState.from_json, remedy)
    except FileNotFoundError:
        if (directory / FINDINGS).exists():
            raise BadSaved(f"{directory} has files of an earlier run, but no {STATE}; {remedy}") from None
        return FollowState()
    return state


@dataclass(frozen=True)
class Round:
    number: int
    verdict: str
    offsets: int  # the number of offsets that were compared, or only read if one replica has them
    partitions: int  # the number of partitions with such offsets
    new: list[AuditFinding]
    known: int  # findings that an earlier round has reported
    whole: dict[str, str]  # verified partitions that were compared as a whole again, and why
    seconds: float
    bytes_read: int = 0
    error: str | None = None  # why the round failed; the next one covers its part, too

    def as_json(self) -> dict[str, Any]:
        called = {"number": "round", "new": "new_findings", "known": "known_findings", "whole": "compared_as_a_whole"}
        fields = {called.get(field.name, field.name): getattr(self, field.name) for field in fields_of(self)}
        return {**fields, "new_findings": [finding_record(finding) for finding in self.new]}


@dataclass
class Follower:
    """Runs rounds over the replicas at `where`. `directory` keeps what is verified."""

    spark: SparkSession
    where: Where
    topics: Sequence[str]
    level: str
    directory: Path
    notify: Callable[[Round], None]
    report: Callable[[StandingAudit], None] = field(default=lambda _: None, kw_only=True)
    until_diverged: bool = False
    max_rounds: int | None = None
    rounds: Counter[str] = field(default_factory=Counter)  # the number of rounds with each verdict
    reported: int = 0  # the number of findings
    writing: Lock = field(default_factory=Lock)  # held from the write of a round until its report

    def run(self, interval_s: float) -> None:
        """Run a round every `interval_s`, until there is a reason to stop."""
        self.directory.mkdir(parents=True, exist_ok=True)
        write_json(self.directory / STATE, read_state(self.directory).as_json())  # `read_state` refuses findings alone
        while True:
            next_round = monotonic() + interval_s
            verdict = self.round()
            if (self.until_diverged and verdict == DIVERGED) or self.rounds.total() == self.max_rounds:
                return
            sleep(max(0.0, next_round - monotonic()))

    def round(self) -> str:
        """Compare what is new, and return the verdict. A failure is left to the next round. Raises ConnectionError if
        Java has ended."""
        state, began = read_state(self.directory), monotonic()
        result, error = None, None
        try:
            result = audit(self.spark, self.where, self.topics, self.level, since=state.saved, save=True)
        except ConnectionError:  # Java has ended
            raise
        except (PySparkException, Py4JJavaError, OSError) as failure:
            error = reason(failure)[:1000]
        with self.writing:
            if result is None:
                seconds = round(monotonic() - began, 2)
                done = Round(state.round + 1, INCONCLUSIVE, 0, 0, [], len(state.known), {}, seconds, 0, error)
            else:
                done = self._finish(state, result, began)
            self.rounds[done.verdict] += 1
            self.reported += len(done.new)
            self.notify(done)
        saved, findings = (state.saved, []) if result is None else (result.saved, result.findings)
        self.report(standing(done.verdict, self.level, int(time() * 1000), saved, findings))
        return done.verdict

    def _finish(self, state: FollowState, result: Audit, began: float) -> Round:
        number = state.round + 1
        keys = {_identity(finding): finding for finding in result.findings[:MAX_KNOWN]}
        known = set(state.known)
        new = [finding for key, finding in keys.items() if key not in known]
        table = self.directory / FINDINGS / f"round={number}"
        shutil.rmtree(table, ignore_errors=True)  # this round may have been cut off before
        if new or number == 0:
            table.mkdir(parents=True)
            write_findings(new, table)
        write_json(self.directory / STATE, FollowState(number, tuple(keys), result.saved).as_json())
        offsets = _offsets(result)
        whole = {} if result.taken is None else {p.directory_name: why for p, why in result.taken.whole.items()}
        return Round(
            number,
            result.verdict,
            sum(offsets),
            sum(count > 0 for count in offsets),
            new,
            len(keys) - len(new),
            whole,
            round(monotonic() - began, 2),
            sum(result.bytes_read.values()),
        )

    @property
    def verdict(self) -> str:
        """The verdict of all rounds so far: DIVERGED if one was."""
        if DIVERGED in self.rounds:
            return DIVERGED
        return CONSISTENT if set(self.rounds) == {CONSISTENT} else INCONCLUSIVE


def _identity(finding: AuditFinding) -> str:
    """Return a key that a finding keeps even if it has grown in a later round."""
    return f"{finding.kind} {finding.topic}-{finding.partition} {finding.wrong} {finding.first}"


def _offsets(result: Audit) -> list[int]:
    """Return the number of offsets that were covered in each partition."""
    starts = {} if result.taken is None else result.taken.starts
    ends: dict[TopicPartition, tuple[int, int]] = {}
    for replica in result.replicas:
        if replica.readable and replica.partition >= 0:
            start, end = ends.get(replica.key, (replica.log_start, replica.mark))
            ends[replica.key] = min(start, replica.log_start), max(end, replica.mark)
    return [max(0, end - max(start, starts.get(key, 0))) for key, (start, end) in ends.items()]


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
                note(f"the verdict is not reported to {self._bootstrap}: {error}")
            self._trouble = error.message
            return
        self._last, self._at_s, self._trouble = news, now_s, ""
