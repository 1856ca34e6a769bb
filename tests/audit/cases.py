"""A case: one partition whose replicas differ, some of them wrongly.

`make_case` draws everything from a seed: the history, how many replicas there are, in whose layout, in what they may
differ, and what is wrong. What must be found is worked out in `expected` from what was done, not from the files.
"""

import itertools
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replog.log.directories.identity import CLEAN_SHUTDOWN
from replog.log.formats.checkpoint import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    OffsetCheckpoint,
)
from replog.topic import TopicPartition
from tests.audit.history import Entry, history
from tests.audit.replica_files import Place, lacks_digests, logs, places, write_log

REPLICAS = (1, 2, 3, 4)
OURS, KAFKA = "ours", "Kafka's"
APART = 4  # offsets between faults of different replicas

COMMITTED_LOSS, GAP = "COMMITTED_LOSS", "GAP"
UNREADABLE = "UNREADABLE"
MISMATCHES = ("VALUE_MISMATCH", "EPOCH_MISMATCH")

IN_PLACE = "its length and base offset are as they were"
MISNUMBERED = "its base offset is not"
LEADS_AWAY = "where the next batch begins cannot be told"


Range = tuple[int, int]


class Impossible(Exception):
    """This cannot be done to this replica: choose again."""


@dataclass(frozen=True)
class Hit:
    """A batch of which bytes changed that its CRC covers, or that say where it and the next one are."""

    first: int
    last: int
    how: str
    ends: bool  # its header still says where, and how many records it has
    beyond: bool = False  # its header says that it goes on behind the end of its file


@dataclass(frozen=True)
class Cause:
    """Something that was made wrong in one replica."""

    name: str  # a row of the table in `levels`
    kind: str  # "": that it is wrong cannot be told
    replica: int
    first: int | None
    last: int | None  # None: where it ends cannot be told
    position: int | None = None  # of the first batch that was hit
    hits: tuple[Hit, ...] = ()
    epochs: tuple[tuple[int, int], ...] | None = None  # that the checkpoint has instead; for a batch, where it is now
    visited: bool = False  # it concerns a header that level index reads, or for zeros any but that of its first batch
    whole: bool = False  # of the replica nothing else can be told
    may_be: tuple[str, ...] = ()  # other classes that it cannot be told from


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
    start_named: bool = False  # in the checkpoint of log starts
    kept_from: int = 0  # what its first segment begins with
    batches: list[Place] = field(default_factory=list)  # in its files, with the headers that were written
    digests_until: int | None = None  # the segment from which on it lacks digest indexes; None: it lacks none

    @property
    def log_start(self) -> int:
        return max(self.start, self.delete_below)

    @property
    def end(self) -> int:
        """The log end when it was written."""
        return self.entries[-1].last + 1

    def checkpoints(self) -> dict[str, int | None]:
        """What its log directory says of it. Kafka names a log start only where it is not a segment's beginning."""
        start = self.log_start if self.start_named else None
        return {HIGH_WATERMARK_CHECKPOINT: self.mark, LOG_START_CHECKPOINT: start}

    def write(self) -> None:
        write_log(self.directory, self.entries, self.start, self.delete_below, **self.settings)
        self.kept_from = int(logs(self.directory)[0].stem)
        self.batches = places(self.directory)

    def places(self) -> list[Place]:
        """Batches that the log start does not hide."""
        return [place for place in self.batches if place.header.base_offset >= self.log_start]

    def entry(self, first: int) -> Entry | None:
        """The batch that it was given, if one begins there."""
        return next((entry for entry in self.entries if entry.first == first), None)

    def wrote(self, first: int) -> bool:
        """Whether it has, or had, a batch that begins there."""
        return self.kept_from <= first and self.entry(first) is not None

    def removed(self, gone: Iterable[Place], *, shifts: bool = False) -> None:
        """Note that batches are not in their file any more; `shifts` what lies behind them."""
        for place in gone:
            self.batches.remove(place)
            if shifts:
                self.shifted(place, -place.header.size)

    def shifted(self, behind: Place, by: int) -> None:
        for slot, other in enumerate(self.batches):
            if other.path == behind.path and other.position > behind.position:
                self.batches[slot] = Place(other.path, other.position + by, other.header)


@dataclass
class Case:
    seed: int
    layout: str
    truth: dict[int, Entry]  # what the leaders wrote, by first offset
    held: dict[int, Held] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    reserved: list[tuple[int, int, int, bool]] = field(default_factory=list)  # replica, offsets, whether alone

    @property
    def topic(self) -> str:
        return f"case-{self.seed}"

    @property
    def committed(self) -> int:
        """Up to where some replica knows the log to be committed."""
        return max(held.mark or 0 for held in self.held.values())

    def reserve(self, replica: int, first: int, last: int, *, alone: bool = False) -> None:
        """Faults of different replicas keep apart, so that the wrong one is known; those of one need not, except
        some that want to be `alone` there."""
        for other, begin, end, wants in self.reserved:
            near = first <= end + APART and begin <= last + APART
            if near and (other != replica or alone or wants):
                raise Impossible
        self.reserved.append((replica, first, last, alone))

    def others(self, replica: int) -> list[Held]:
        return [held for held in self.held.values() if held.replica != replica]

    def lost(self, replica: int) -> bool:
        """Whether there is nothing left of it."""
        return any(cause.name == "lost replica" for cause in self.of(replica))

    def of(self, replica: int) -> list[Cause]:
        return [cause for cause in self.causes if cause.replica == replica]

    def __str__(self) -> str:
        lines = [f"case {self.seed} ({self.topic}-0), layout {self.layout}:"]
        for held in self.held.values():
            lines.append(
                f"  replica {held.replica}: offsets {held.log_start} to {held.end - 1}, high watermark {held.mark}, "
                f"{held.settings}"
            )
        return "\n".join([*lines, *(f"  {what}" for what in self.done or ["nothing was done"])])


Step = Callable[[Case, Held, random.Random], None]


def make_case(seed: int, directories: dict[int, Path]) -> Case:
    """Make the partition `case-<seed>`-0 in the log directories."""
    from tests.audit import differences, faults

    rng = random.Random(seed)
    ids = sorted(rng.sample(REPLICAS, rng.choice((2, 3, 3, 3, 3, 4))))
    layout = rng.choice((OURS, KAFKA))
    entries = history(rng, rng.randint(14, 36))
    settings = {"segment_bytes": rng.randint(700, 2500), "index_interval_bytes": rng.randint(90, 400)}
    case = Case(seed, layout, {one.first: one for one in entries})
    for replica in ids:
        place = directories[replica] / f"{case.topic}-0"
        case.held[replica] = Held(replica, place, list(entries), entries[-1].last + 1, dict(settings))
    everyone = list(case.held.values())
    _take(case, rng, differences.PLANS, rng.randint(0, 4), everyone)
    for held in everyone:
        held.write()
        held.start_named = held.delete_below > held.kept_from or rng.random() < 0.5
    everything = [*faults.REWRITES, *faults.DAMAGES]
    wanted = rng.choice((0, 1, 1, 2, 2, 3))
    wrong = [rng.choice(everyone)] if rng.random() < 0.6 else everyone  # to which faults are done
    chosen = [everything[seed % len(everything)], *rng.sample(everything, len(everything))]
    for step in chosen[:wanted]:
        if step in faults.REWRITES:
            _take(case, rng, [step], 1, wrong)
    if layout == KAFKA:
        for held in everyone:
            differences.as_kafka(case, held, rng)
    _take(case, rng, differences.FILES, rng.randint(0, 3), everyone)
    for held in everyone:
        segment = lacks_digests(held.directory)
        held.digests_until = None if segment is None else int(segment.stem)
    for step in chosen:  # those that come first, unless they cannot be done here
        if step not in faults.REWRITES and len(case.causes) < wanted:
            _take(case, rng, [step], 1, wrong)
    if rng.random() < 0.2:
        sound = [held for held in everyone if not case.of(held.replica)]
        _take(case, rng, [differences.torn_write], 1, sound)
    return case


def _take(case: Case, rng: random.Random, steps: list[Step], count: int, held: list[Held]) -> None:
    """Do `count` of the steps, each to some replica of those `held` that it can be done to."""
    for step in rng.sample(steps, min(count, len(steps))):
        for one in rng.sample(held, len(held)):
            if case.lost(one.replica):
                continue
            try:
                step(case, one, rng)
            except Impossible:
                continue
            case.done.append(f"replica {one.replica}: {step.__name__.replace('_', ' ')}")
            break


def pick(case: Case, held: Held, rng: random.Random, below: int | None = None) -> Place:
    """A batch of the replica that was not hit: the first, the last (below an offset, if given), one at a segment's
    border, one next to what is wrong already, or any."""
    hit = {hit.first for cause in case.of(held.replica) for hit in cause.hits}
    candidates = [
        place
        for place in held.places()
        if place.header.base_offset not in hit and (below is None or place.header.base_offset < below)
    ]
    if not candidates:
        raise Impossible
    wrong = [(cause.first, cause.last or cause.first) for cause in case.of(held.replica) if cause.first is not None]
    choices = {
        "first": candidates[:1],
        "last": candidates[-1:],
        "border": [place for a, b in itertools.pairwise(candidates) if a.path != b.path for place in (a, b)],
        "near": [
            place
            for place in candidates
            if any(a <= place.header.next_offset and place.header.base_offset <= b + 1 for a, b in wrong)
        ],
    }
    if choices["near"] and rng.random() < 0.5:
        return rng.choice(choices["near"])
    return rng.choice(choices.get(rng.choice(("first", "last", "border", "any", "any"))) or candidates)


def all_cases(
    seeds: Iterable[int], root: Path, make: Callable[[int, dict[int, Path]], Any] = make_case
) -> tuple[dict[int, Path], list[Any]]:
    """The cases of `seeds`, each a partition of one cluster of brokers whose log directories are under `root`."""
    directories = {replica: root / str(replica) for replica in REPLICAS}
    for directory in directories.values():
        directory.mkdir(parents=True)
    cases = [make(seed, directories) for seed in seeds]
    for replica, directory in directories.items():
        for name in (HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT, CLEANER_CHECKPOINT):
            said = {case.topic: case.held[replica].checkpoints().get(name) for case in cases if replica in case.held}
            known = {TopicPartition(topic, 0): offset for topic, offset in said.items() if offset is not None}
            OffsetCheckpoint(directory / name).write(known)
        (directory / CLEAN_SHUTDOWN).touch()
    return directories, cases
