"""The audit that never ends: a Structured Streaming query whose every trigger compares what is new since the last.

Spark's checkpoint says which triggers were finished; ours says up to where the replicas were verified by then. Each
round writes its findings under its own number, then our checkpoint, atomically; then Spark notes the trigger. So a
round that a crash cut off is done again from where it began, and one that only Spark had not noted is not repeated:
nothing is verified twice, nothing is skipped.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from replog.topic import TopicPartition
from spark_jobs.audit.audit import Audit, Where, audit
from spark_jobs.audit.findings import CONSISTENT, DIVERGED, INCONCLUSIVE, Finding
from spark_jobs.audit.results import finding_record, write_findings
from spark_jobs.audit.since import BadSaved, Saved, read_json, write_json
from spark_jobs.session import reason

FORMAT, VERSION = "replog audit follow", 1
STATE, STREAM, FINDINGS = "verified.json", "stream", "findings"  # in the checkpoint directory
MAX_KNOWN = 10_000
LOOK_S = 0.2  # how often an end is looked for


@dataclass(frozen=True)
class State:
    """What is known after a round."""

    round: int = -1  # the last that was finished
    trigger: int = -1  # the trigger of the query that it was
    known: tuple[str, ...] = ()  # findings that were told, and were still there
    saved: Saved | None = None

    def as_json(self) -> dict[str, Any]:
        numbers = {"format": FORMAT, "version": VERSION, "round": self.round, "trigger": self.trigger}
        return {**numbers, "known": self.known, "saved": None if self.saved is None else self.saved.as_json()}

    @classmethod
    def from_json(cls, stored: Any) -> "State":
        if (stored["format"], stored["version"]) != (FORMAT, VERSION):
            raise ValueError(f"it is of format {str(stored['format'])[:40]!r}, version {str(stored['version'])[:40]}")
        saved = None if stored["saved"] is None else Saved.from_json(stored["saved"])
        return cls(int(stored["round"]), int(stored["trigger"]), tuple(map(str, stored["known"])), saved)


def read_state(directory: Path) -> State:
    """What an earlier run left in its checkpoint directory, or the beginning. Raises BadSaved, OSError."""
    remedy = f"move {directory} aside to verify everything anew"
    try:
        state: State = read_json(directory / STATE, "state of a follow", State.from_json, remedy)
    except FileNotFoundError:
        if any((directory / name).exists() for name in (STREAM, FINDINGS)):
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
    rounds: list[str] = field(default_factory=list)  # their verdicts
    stopping: bool = False  # set by anybody, a signal handler too: a lock could be held by the one that it interrupts
    _at_work: bool = False  # in a round

    def run(self, interval_s: float) -> None:
        """A round every `interval_s`, until `stopping` is set or there is no reason to go on."""
        self.directory.mkdir(parents=True, exist_ok=True)
        # So that no end leaves Spark's part alone.
        write_json(self.directory / STATE, read_state(self.directory).as_json())
        clock = self.spark.readStream.format("rate-micro-batch").options(rowsPerBatch="1", numPartitions="1").load()
        query = (
            clock.writeStream.foreachBatch(self._trigger)
            .option("checkpointLocation", str(self.directory / STREAM))
            .trigger(processingTime=f"{round(interval_s * 1000)} milliseconds")
            .start()
        )
        try:
            while query.isActive and not self.stopping:
                sleep(LOOK_S)
            failure = query.exception()
            if failure is not None and not self.stopping:
                raise failure
        finally:
            self.stopping = True
            while self._at_work and query.isActive:  # a round is many jobs, and has times between them
                self.spark.sparkContext.cancelAllJobs()
                sleep(LOOK_S)
            query.stop()

    def _trigger(self, _clock: DataFrame, trigger: int) -> None:
        self._at_work = True
        try:
            if not self.stopping:
                self.round(trigger)
        finally:
            self._at_work = False

    def round(self, trigger: int) -> None:
        """Compare what is new. What fails is left to the next round."""
        state = read_state(self.directory)
        if trigger == state.trigger:
            return  # it was finished, and the end came before Spark noted that
        number, began = state.round + 1, monotonic()
        try:
            result = audit(self.spark, self.where, self.topics, self.level, since=state.saved, save=True)
        except (PySparkException, Py4JError, OSError) as error:
            if self.stopping:
                return
            seconds = round(monotonic() - began, 2)
            done = Round(number, INCONCLUSIVE, 0, 0, [], len(state.known), {}, seconds, 0, reason(error)[:1000])
        else:
            done = self._finish(state, trigger, result, began)
        self.rounds.append(done.verdict)
        self.tell(done)
        if (self.until_diverged and done.verdict == DIVERGED) or len(self.rounds) == self.max_rounds:
            self.stopping = True

    def _finish(self, state: State, trigger: int, result: Audit, began: float) -> Round:
        number = state.round + 1
        keys = {_identity(finding): finding for finding in result.findings[:MAX_KNOWN]}
        known = set(state.known)
        new = [finding for key, finding in keys.items() if key not in known]
        table = self.directory / FINDINGS / f"round={number}"
        shutil.rmtree(table, ignore_errors=True)  # of this round, before the end came
        if new or number == 0:
            table.mkdir(parents=True)
            write_findings(new, table)
        write_json(self.directory / STATE, State(number, trigger, tuple(keys), result.saved).as_json())
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
        return CONSISTENT if self.rounds and set(self.rounds) == {CONSISTENT} else INCONCLUSIVE


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
