"""A case: one partition whose replicas differ, some of them wrongly, and what an audit of it must find.

`make_case` draws everything from a seed: the history, how many replicas there are, in whose layout, in what they may
differ, and what is wrong. What must be found is worked out from what was done, not from the files.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from replog.log.checkpoint import HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT, OffsetCheckpoint
from replog.log.clean_shutdown import CLEAN_SHUTDOWN
from replog.topic import TopicPartition
from tests.audit.replica_files import Entry, Place, lacks_digests, logs, places, write_log

REPLICAS = (1, 2, 3, 4)
NOW = 1_700_000_000_000  # ms
OURS, KAFKA = "ours", "Kafka's"

COMMITTED_LOSS, GAP = "COMMITTED_LOSS", "GAP"
UNREADABLE = "UNREADABLE"
MISMATCHES = ("VALUE_MISMATCH", "EPOCH_MISMATCH")


class Impossible(Exception):
    """This cannot be done to this replica: choose again."""


@dataclass(frozen=True)
class Cause:
    """Something that was made wrong in one replica."""

    name: str  # a row of the table in `levels`
    kind: str
    replica: int
    first: int | None
    last: int | None  # None: where it ends cannot be told
    until: int | None = None  # where it ends at the latest, if `last` is None
    position: int | None = None  # of the batch, if that can be told
    visited: bool = False  # it concerns a header that level index reads, or for zeros any but that of its first batch
    contradicted: bool = False  # by the replica's own digests or epochs
    may_be: tuple[str, ...] = ()  # other classes that it cannot be told from


@dataclass(frozen=True)
class Expected:
    """A finding that there must be."""

    cause: Cause
    kinds: tuple[str, ...]
    wrong: int | None
    first: int | None
    last: int | None
    until: int | None = None

    def __str__(self) -> str:
        return f"{'/'.join(self.kinds)} wrong={self.wrong} {self.first} to {self.last}  ({self.cause.name})"


@dataclass
class Held:
    """One replica: what it wrote, and what was done to it since."""

    replica: int
    directory: Path
    entries: list[Entry]
    mark: int | None
    settings: dict[str, int]
    start: int = 0  # the log's first offset when it was written
    delete_below: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)
    rotten: list[tuple[int, int]] = field(default_factory=list)
    unreadable: list[tuple[int, int]] = field(default_factory=list)
    start_named: bool = False  # in the checkpoint of log starts
    kept_from: int = 0  # what its first segment begins with
    changed: list[Entry] = field(default_factory=list)  # where it contradicts the others
    undescribed: bool = False  # so little can be read that it takes no part in comparisons
    digests_until: int | None = None  # the segment from which on it lacks digest indexes; None: it lacks none

    @property
    def log_start(self) -> int:
        return max(self.start, self.delete_below)

    @property
    def end(self) -> int:
        """The log end when it was written."""
        return self.entries[-1].last + 1

    def write(self) -> None:
        write_log(self.directory, self.entries, self.start, self.delete_below, **self.settings)
        self.kept_from = int(logs(self.directory)[0].stem)

    def places(self) -> list[Place]:
        """Batches that the log start does not hide."""
        return [place for place in places(self.directory) if place.header.base_offset >= self.log_start]

    def has(self, offset: int) -> bool:
        """Whether the batch with `offset` is there and sound."""
        hidden = [*self.lost, *self.rotten, *self.unreadable]
        return self.kept_from <= offset < self.end and not any(first <= offset <= last for first, last in hidden)

    def knows(self, first: int) -> bool:
        """Whether it has a batch that begins there, and knows it to be committed."""
        entries = any(entry.first == first for entry in self.entries)
        return entries and self.has(first) and (self.mark or 0) > first and not self.undescribed

    def size(self, start: int, end: int) -> int:
        """Bytes of its batches from one offset to another."""
        return sum(len(e.data) for e in self.entries if start <= e.first and e.last < end and self.has(e.first))

    def epoch_at(self, first: int) -> int:
        return next(entry.epoch for entry in self.entries if entry.first == first)


@dataclass
class Case:
    seed: int
    layout: str
    held: dict[int, Held]
    done: list[str] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    reserved: list[tuple[int, int]] = field(default_factory=list)  # offsets that a fault concerns

    @property
    def topic(self) -> str:
        return f"case-{self.seed}"

    @property
    def committed(self) -> int:
        """Up to where some replica knows the log to be committed."""
        return max(held.mark or 0 for held in self.held.values())

    def reserve(self, first: int, last: int) -> None:
        """Faults keep apart, so that each has its own finding."""
        if any(first <= end + 4 and begin <= last + 4 for begin, end in self.reserved):
            raise Impossible
        self.reserved.append((first, last))

    def others(self, replica: int) -> list[Held]:
        return [held for held in self.held.values() if held.replica != replica]

    def expected(self) -> list[Expected]:
        return [expected for cause in self.causes if cause.kind and (expected := self._expect(cause))]

    def _expect(self, cause: Cause) -> Expected | None:
        if cause.kind in MISMATCHES:
            return self._mismatch(cause)
        if cause.kind == COMMITTED_LOSS:
            return self._loss(cause)
        return Expected(cause, (cause.kind, *cause.may_be), cause.replica, cause.first, cause.last, cause.until)

    def is_shared(self, cause: Cause) -> bool:
        """Whether the batch is compared with that of another replica."""
        return bool(self._sharing(cause))

    def _sharing(self, cause: Cause) -> list[Held]:
        assert cause.first is not None
        if (self.held[cause.replica].mark or 0) <= cause.first:
            return []
        return [held for held in self.others(cause.replica) if held.knows(cause.first)]

    def mistaken_for(self, one: Expected, kinds: tuple[str, ...]) -> list[Expected]:
        """What a level says that does not see that the batch is rotten, only that others have another one."""
        if not kinds or not (sharing := self._sharing(one.cause)):
            return []
        blamed = [one.wrong] if len(sharing) > 1 else [one.wrong, None]  # its own digests may contradict it
        return [Expected(one.cause, kinds, wrong, one.first, None) for wrong in blamed]

    def without_digests(self) -> dict[tuple[int, int], bool]:
        """Replica and segment from which on digest indexes do not say anything: whether the files are missing."""
        found = {}
        for held in self.held.values():
            segment = None if held.undescribed else lacks_digests(held.directory)
            if segment is not None:
                found[held.replica, int(segment.stem)] = not segment.with_suffix(".digest").exists()
        return found

    def _mismatch(self, cause: Cause) -> Expected | None:
        """A batch is compared among those who know it to be committed. Whom two others contradict is wrong; of two that
        contradict each other it is the one that contradicts itself, else the one with the older epoch."""
        one = self.held[cause.replica]
        first: int | None = None
        against: dict[int, Held] = {}
        for entry in one.changed:
            if one.knows(entry.first):
                other = [held for held in self.others(cause.replica) if held.knows(entry.first)]
                against |= {held.replica: held for held in other}
                first = entry.first if first is None and other else first
        if first is None:
            return None
        wrong: int | None = cause.replica
        if len(against) == 1 and not cause.contradicted:
            pair = {held.epoch_at(first): held.replica for held in (one, *against.values())}
            wrong = pair[min(pair)] if len(pair) > 1 else None
        return Expected(cause, (cause.kind,), wrong, first, cause.last, cause.until)

    def _loss(self, cause: Cause) -> Expected | None:
        """A loss of what another replica still has, as far as it was committed; of what no other has, a gap."""
        assert cause.first is not None
        assert cause.last is not None
        holders = [
            held
            for held in self.others(cause.replica)
            if not held.undescribed
            and held.log_start <= cause.last
            and any(held.has(e.first) and cause.first <= e.last and e.first <= cause.last for e in held.entries)
        ]
        if not holders or cause.first >= self.committed:
            return Expected(cause, (GAP, *cause.may_be), cause.replica, cause.first, cause.last)
        first = max(cause.first, min(held.log_start for held in holders))
        last = min(cause.last, self.committed - 1, max(held.end for held in holders) - 1)
        return Expected(cause, (COMMITTED_LOSS, *cause.may_be), cause.replica, first, last)

    def __str__(self) -> str:
        lines = [f"case {self.seed} ({self.topic}-0), layout {self.layout}:"]
        for held in self.held.values():
            lines.append(
                f"  replica {held.replica}: offsets {held.log_start} to {held.end - 1}, high watermark {held.mark}, "
                f"{held.settings}"
            )
        return "\n".join([*lines, *(f"  {what}" for what in self.done or ["nothing was done"])])


def history(rng: random.Random, count: int) -> list[Entry]:
    """Batches of one to four records; timestamps wander, epochs rise now and then."""
    entries: list[Entry] = []
    epoch, offset, now = rng.randint(0, 3), 0, NOW
    for _ in range(count):
        if rng.random() < 0.15:
            epoch += rng.randint(1, 3)
        entries.append(entry(rng, offset, epoch, rng.randint(1, 4), now))
        offset, now = entries[-1].last + 1, now + rng.randint(-300, 900)
    return entries


def entry(rng: random.Random, first: int, epoch: int, records: int, now: int) -> Entry:
    return Entry(
        tuple((now + rng.randint(0, 400), rng.randbytes(rng.randint(4, 60))) for _ in range(records)), epoch, first
    )


Step = Callable[[Case, Held, random.Random], None]


def make_case(seed: int, directories: dict[int, Path]) -> Case:
    """Make the partition `case-<seed>`-0 in the log directories; the checkpoints of all cases: `write_checkpoints`."""
    from tests.audit import differences, faults

    rng = random.Random(seed)
    ids = sorted(rng.sample(REPLICAS, rng.choice((2, 3, 3, 3, 3, 4))))
    layout = rng.choice((OURS, KAFKA))
    entries = history(rng, rng.randint(14, 36))
    settings = {"segment_bytes": rng.randint(700, 2500), "index_interval_bytes": rng.randint(90, 400)}
    case = Case(seed, layout, {})
    for replica in ids:
        place = directories[replica] / f"{case.topic}-0"
        case.held[replica] = Held(replica, place, list(entries), entries[-1].last + 1, dict(settings))
    allowed = rng.randint(0, 4)
    _take(case, rng, differences.PLANS, allowed)
    for held in case.held.values():
        held.write()
        held.start_named = held.delete_below > held.kept_from or rng.random() < 0.5
    everything = [*faults.REWRITES, *faults.DAMAGES]
    wanted = rng.choice((0, 1, 1, 1, 2))
    chosen = [everything[seed % len(everything)], *rng.sample(everything, len(everything))]
    for step in chosen[:wanted]:
        if step in faults.REWRITES:
            _take(case, rng, [step], 1)
    if layout == KAFKA:
        for held in case.held.values():
            differences.as_kafka(case, held, rng)
    _take(case, rng, differences.FILES, rng.randint(0, 3))
    for held in case.held.values():
        segment = lacks_digests(held.directory)
        held.digests_until = None if segment is None else int(segment.stem)
    for step in chosen:  # those that come first, unless they cannot be done here
        if step not in faults.REWRITES and len({cause.name for cause in case.causes}) < wanted:
            _take(case, rng, [step], 1)
    if rng.random() < 0.2:
        _take(case, rng, [differences.torn_write], 1)
    return case


def _take(case: Case, rng: random.Random, steps: list[Step], count: int) -> None:
    """Do `count` of the steps, each to some replica that it can be done to."""
    for step in rng.sample(steps, min(count, len(steps))):
        touched = {cause.replica for cause in case.causes}
        for held in rng.sample(list(case.held.values()), len(case.held)):
            if held.replica in touched:
                continue  # one fault a replica
            try:
                step(case, held, rng)
            except Impossible:
                continue
            case.done.append(f"replica {held.replica}: {step.__name__.replace('_', ' ')}")
            break


def pick(case: Case, held: Held, rng: random.Random, below: int | None = None) -> Place:
    """A batch of the replica: the first, the last (below an offset, if given), one at a segment's border or any."""
    candidates = [place for place in held.places() if below is None or place.header.base_offset < below]
    if not candidates:
        raise Impossible
    borders = [place for a, b in itertools.pairwise(candidates) if a.path != b.path for place in (a, b)]
    where = rng.choice(("first", "last", "border", "any", "any"))
    if where == "first":
        return candidates[0]
    if where == "last":
        return candidates[-1]
    return rng.choice(borders if where == "border" and borders else candidates)


def write_checkpoints(directories: dict[int, Path], cases: list[Case]) -> None:
    """The checkpoints of the log directories. Kafka names a log start only where it is not a segment's beginning."""
    for replica, directory in directories.items():
        held = {TopicPartition(case.topic, 0): case.held[replica] for case in cases if replica in case.held}
        marks = {partition: one.mark for partition, one in held.items() if one.mark is not None}
        starts = {partition: one.log_start for partition, one in held.items() if one.start_named}
        OffsetCheckpoint(directory / HIGH_WATERMARK_CHECKPOINT).write(marks)
        OffsetCheckpoint(directory / LOG_START_CHECKPOINT).write(starts)
        (directory / CLEAN_SHUTDOWN).touch()


def all_cases(seeds: Iterator[int] | range | list[int], root: Path) -> tuple[dict[int, Path], list[Case]]:
    """The cases of `seeds`, each a partition of one cluster of brokers whose log directories are under `root`."""
    directories = {replica: root / str(replica) for replica in REPLICAS}
    for directory in directories.values():
        directory.mkdir(parents=True)
    cases = [make_case(seed, directories) for seed in seeds]
    write_checkpoints(directories, cases)
    return directories, cases
