"""The audit that never ends: `--since` the last round, again and again.

A round writes its findings under its own number, then the state, atomically. The state alone says what is done: a round
that was cut off is done again from where it began, so nothing is verified twice and nothing is skipped.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from replog.topic import TopicPartition
from spark_jobs.audit.audit import Audit, Where, audit
from spark_jobs.audit.findings import CONSISTENT, DIVERGED, INCONCLUSIVE, Finding
from spark_jobs.audit.results import finding_record, write_findings
from spark_jobs.audit.since import BadSaved, Saved, read_json, write_json
from spark_jobs.session import reason

FORMAT, VERSION = "replog audit follow", 1
STATE, FINDINGS = "verified.json", "findings"  # in the checkpoint directory
MAX_KNOWN = 10_000


@dataclass(frozen=True)
class State:
    """What is known after a round."""

    round: int = -1  # the last that was finished
    known: tuple[str, ...] = ()  # findings that were told, and were still there
    saved: Saved | None = None

    def as_json(self) -> dict[str, Any]:
        saved = None if self.saved is None else self.saved.as_json()
        return {"format": FORMAT, "version": VERSION, "round": self.round, "known": self.known, "saved": saved}

    @classmethod
    def from_json(cls, stored: Any) -> "State":
        if (stored["format"], stored["version"]) != (FORMAT, VERSION):
            raise ValueError(f"it is of format {str(stored['format'])[:40]!r}, version {str(stored['version'])[:40]}")
        saved = None if stored["saved"] is None else Saved.from_json(stored["saved"])
        return cls(int(stored["round"]), tuple(map(str, stored["known"])), saved)


def read_state(directory: Path) -> State:
    """What an earlier run left in its checkpoint directory, or the beginning. Raises BadSaved, OSError."""
    remedy = f"move {directory} aside to verify everything anew"
    try:
        state: State = read_json(directory / STATE, "state of a follow", State.from_json, remedy)
    except FileNotFoundError:
        if (directory / FINDINGS).exists():
            raise BadSaved(f"{directory} has no {STATE} beside what an earlier run left; {remedy}") from None
        return State()
    return state


@dataclass(frozen=True)
class Round:
    """What one round did."""

    number: int
    verdict: str
    offsets: int  # that were compared, or read where only one replica has them
    partitions: int  # in which there were any
    new: list[Finding]
    known: int  # findings that an earlier round has told
    whole: dict[str, str]  # partitions that were compared as a whole although they had been verified, and why
    seconds: float
    bytes_read: int = 0
    error: str | None = None  # the round failed: the next one covers what it should have

    def as_json(self) -> dict[str, Any]:
        return {
            "round": self.number,
            "verdict": self.verdict,
            "offsets": self.offsets,
            "partitions": self.partitions,
            "new_findings": [finding_record(finding) for finding in self.new],
            "known_findings": self.known,
            "compared_as_a_whole": self.whole,
            "bytes_read": self.bytes_read,
            "seconds": self.seconds,
            "error": self.error,
        }


@dataclass
class Follower:
    """Rounds over the replicas at `where`, from what `directory` says is verified."""

    spark: SparkSession
    where: Where
    topics: Sequence[str]
    level: str
    directory: Path
    tell: Callable[[Round], None]
    until_diverged: bool = False
    max_rounds: int | None = None
    rounds: Counter[str] = field(default_factory=Counter)  # by their verdicts
    told: int = 0  # findings
    writing: Lock = field(default_factory=Lock)  # held from where a round is written down until it is told

    def run(self, interval_s: float) -> None:
        """A round every `interval_s`, until there is no reason to go on."""
        self.directory.mkdir(parents=True, exist_ok=True)
        write_json(self.directory / STATE, read_state(self.directory).as_json())  # so that no findings stand alone
        while True:
            next_round = monotonic() + interval_s
            verdict = self.round()
            if (self.until_diverged and verdict == DIVERGED) or self.rounds.total() == self.max_rounds:
                return
            sleep(max(0.0, next_round - monotonic()))

    def round(self) -> str:
        """Compare what is new; returns the verdict. What fails is left to the next round, except when Java has ended:
        then there is none."""
        state, began = read_state(self.directory), monotonic()
        result, error = None, None
        try:
            result = audit(self.spark, self.where, self.topics, self.level, since=state.saved, save=True)
        except ConnectionError:  # to Java
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
            self.told += len(done.new)
            self.tell(done)
        return done.verdict

    def _finish(self, state: State, result: Audit, began: float) -> Round:
        number = state.round + 1
        keys = {_identity(finding): finding for finding in result.findings[:MAX_KNOWN]}
        known = set(state.known)
        new = [finding for key, finding in keys.items() if key not in known]
        table = self.directory / FINDINGS / f"round={number}"
        shutil.rmtree(table, ignore_errors=True)  # of this round, before the end came
        if new or number == 0:
            table.mkdir(parents=True)
            write_findings(new, table)
        write_json(self.directory / STATE, State(number, tuple(keys), result.saved).as_json())
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
        """Of all rounds so far: DIVERGED if one was."""
        if DIVERGED in self.rounds:
            return DIVERGED
        return CONSISTENT if set(self.rounds) == {CONSISTENT} else INCONCLUSIVE


def _identity(finding: Finding) -> str:
    """What tells a finding from others, also when there is more of it in a later round."""
    return f"{finding.kind} {finding.topic}-{finding.partition} {finding.wrong} {finding.first}"


def _offsets(result: Audit) -> list[int]:
    """How many offsets of each partition were covered."""
    starts = {} if result.taken is None else result.taken.starts
    ends: dict[TopicPartition, tuple[int, int]] = {}
    for replica in result.replicas:
        if replica.readable and replica.partition >= 0:
            start, end = ends.get(replica.key, (replica.log_start, replica.mark))
            ends[replica.key] = min(start, replica.log_start), max(end, replica.mark)
    return [max(0, end - max(start, starts.get(key, 0))) for key, (start, end) in ends.items()]
