"""The state of every replica of every partition, the page's map of it, and its plots: where logs, epochs and findings
are, in pixels. The template draws them. Pure."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from replog.topic import TopicPartition
from spark_jobs.audit.audit import Audit
from spark_jobs.audit.findings import AuditFinding
from spark_jobs.audit.text import name_of, number
from spark_jobs.replicas.describe import Place, Replica
from spark_jobs.replicas.faults import UNREADABLE

OK, LAGGING, FAULT, UNREAD, ABSENT = "ok", "lagging", "fault", "unreadable", "absent"
STATES = (FAULT, UNREAD, LAGGING, OK, ABSENT)  # the worst first
SYMBOLS = {OK: "✓", LAGGING: "↓", FAULT: "✕", UNREAD: "?", ABSENT: "–"}
MEANING = {
    OK: "agrees with the others as far as it was compared",
    LAGGING: "its log ends before another's: allowed, it has yet to copy the rest",
    FAULT: "most likely wrong, or one of several that contradict each other",
    UNREAD: "could not be read, or not for certain",
    ABSENT: "holds no replica of the partition",
}

MAX_CELLS = 40_000  # cells of the map
COLUMNS = 24  # partitions side by side
WIDTH, LEFT, RIGHT = 960, 118, 136  # the width of a plot, and of its labels on each side, in pixels at full size
_APART = 14  # boxes closer than this are drawn as one


def is_fault(finding: AuditFinding) -> bool:
    """Return True if something is certainly wrong; False if something is not known."""
    return finding.kind != UNREADABLE


def states(result: Audit) -> dict[Place, str]:
    """Return the state of each replica, also of replicas that only findings name."""
    furthest: dict[TopicPartition, int] = defaultdict(int)
    for replica in result.replicas:
        if replica.readable:
            furthest[replica.key] = max(furthest[replica.key], replica.log_end)
    states = {r.place: LAGGING if r.log_end < furthest[r.key] else OK for r in result.replicas}
    for place, findings in concerned(result).items():
        states[place] = FAULT if any(is_fault(finding) for _, finding in findings) else UNREAD
    return states


def concerned(result: Audit) -> dict[Place, list[tuple[int, AuditFinding]]]:
    """Return the findings against each replica, numbered from 1. A finding that names none counts against all."""
    held: dict[TopicPartition, list[int]] = defaultdict(list)
    for replica in result.replicas:
        held[replica.key].append(replica.replica)
    against: dict[Place, list[tuple[int, AuditFinding]]] = defaultdict(list)
    for count, finding in enumerate(result.findings, 1):
        named = finding.replicas if finding.wrong is None else (finding.wrong,)
        for replica_id in named or held[finding.key]:
            against[*finding.key, replica_id].append((count, finding))
    return against


@dataclass(frozen=True)
class Cell:
    """One replica of one partition on the map; `finding` is the number of the first finding against it, or 0."""

    state: str
    tip: str
    finding: int = 0


@dataclass
class Map:
    """Tables of (topic, columns), each column with a cell for each replica. `counts` counts all cells, `left_out` the
    partitions that are not drawn."""

    replicas: list[int]
    tables: list[tuple[str, list[tuple[int, list[Cell]]]]]
    counts: dict[str, int]
    partitions: int
    left_out: int
    left_out_states: str


def overview(result: Audit, listed: int) -> Map:
    """Return the map. If it would be too large, whole partitions are left out, those with the best states first."""
    standing, against = states(result), concerned(result)
    replicas = sorted({*result.directories, *(place[2] for place in standing)})
    keys = sorted({TopicPartition(topic, partition) for topic, partition, _ in standing})
    for n in [n for _, partition, n in standing if partition < 0]:
        for place in ((*key, n) for key in keys):  # an unreadable log directory may have a replica of any partition
            if standing.setdefault(place, UNREAD) == UNREAD and not against[place]:
                against[place] = against["", -1, n]
    counts = Counter(standing.values())
    counts[ABSENT] = len(keys) * len(replicas) - len(standing)
    worst = {key: min((standing.get((*key, n), ABSENT) for n in replicas), key=STATES.index) for key in keys}
    drawn = sorted(keys, key=lambda key: STATES.index(worst[key]))[: MAX_CELLS // max(len(replicas), 1)]
    without = Counter(worst[key] for key in set(keys) - set(drawn))
    described = {replica.place: replica for replica in result.replicas}
    tables: list[tuple[str, list[tuple[int, list[Cell]]]]] = []
    for key in sorted(drawn):
        if not tables or tables[-1][0] != key.topic or len(tables[-1][1]) == COLUMNS:
            tables.append((key.topic, []))
        places = [(*key, n) for n in replicas]
        cells = [_cell(standing.get(p, ABSENT), described.get(p), against.get(p, []), listed) for p in places]
        tables[-1][1].append((key.partition, cells))
    left = ", ".join(f"{number(count)} {state}" for state, count in sorted(without.items()))
    return Map(replicas, tables, {s: counts[s] for s in STATES}, len(keys), len(keys) - len(drawn), left)


def _cell(state: str, replica: Replica | None, findings: list[tuple[int, AuditFinding]], listed: int) -> Cell:
    if replica is None and not findings:
        return Cell(ABSENT, "")
    tip = "no log seen here"
    if replica is not None:
        mark = "unknown" if replica.high_watermark is None else number(replica.high_watermark)
        tip = f"offsets {number(replica.log_start)} – {number(replica.log_end)}, high watermark {mark}"
        tip += f", cleaned to {number(replica.cleaned_to)}" if replica.cleaned_to else ""
    if not findings:
        return Cell(state, f"{state}: {tip}")
    kinds = Counter(finding.kind for _, finding in findings)
    summary = ", ".join(f"{kind} ×{count}" if count > 1 else kind for kind, count in sorted(kinds.items()))
    if findings[0][0] > listed:
        return Cell(state, f"{state}: {summary}, in findings.parquet; {tip}")
    return Cell(state, f"{state}: {summary}; {tip}", findings[0][0])


# -- plots


@dataclass(frozen=True)
class Mark:
    """The offsets of a finding in one replica. `blamed`: this replica is most likely wrong, or may be."""

    number: int
    kind: str
    first: int
    last: int
    blamed: bool


@dataclass(frozen=True)
class Box:
    """Marks that are drawn as one; the page leads from it to `lead`."""

    marks: tuple[Mark, ...]
    first: int
    last: int

    @property
    def lead(self) -> Mark:
        return next((mark for mark in self.marks if mark.blamed), self.marks[0])

    @property
    def kinds(self) -> str:
        return ", ".join(dict.fromkeys(mark.kind for mark in self.marks))


@dataclass(frozen=True)
class Lane:
    """One replica of a partition. `log` is None if the replica has no known log."""

    replica: int
    log: Replica | None
    epochs: tuple[tuple[int, int], ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Plot:
    """The replicas of a partition from one offset to another."""

    name: str
    lanes: Sequence[Lane]
    low: int
    high: int

    def x(self, offset: int) -> float:
        inside = min(max(offset, self.low), self.high)
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (inside - self.low) / max(self.high - self.low, 1), 1)

    def shows(self, offset: int | None) -> bool:
        return offset is not None and self.low <= offset <= self.high

    def ticks(self) -> list[int]:
        """Return up to nine round numbers."""
        rough = max((self.high - self.low) / 6, 1)
        power = 10 ** math.floor(math.log10(rough))
        step = next(int(power * m) for m in (1, 2, 5, 10) if power * m >= rough)
        return list(range(-(-self.low // step) * step, self.high + 1, step))

    def epochs(self, lane: Lane) -> Iterator[tuple[int | None, int, int]]:
        """Yield the epoch, start and end of each part of the log; None if the checkpoint does not say the epoch."""
        assert lane.log is not None
        at, end = lane.log.log_start, lane.log.log_end
        known = [entry for entry in lane.epochs if entry[1] < end]
        parts: list[tuple[int | None, int]] = [(None, at), *known, (None, end)]
        for (epoch, start), (_, after) in pairwise(parts):
            first, last = max(start, at, self.low), min(after, self.high)
            if first < last:
                yield epoch, first, last

    def boxes(self, lane: Lane) -> list[Box]:
        boxes: list[Box] = []
        for mark in sorted(lane.marks, key=lambda m: (m.first, m.last)):
            if mark.last < self.low or mark.first >= self.high:
                continue
            if boxes and self.x(mark.first) < self.x(boxes[-1].last + 1) + _APART:
                before = boxes.pop()
                boxes.append(Box((*before.marks, mark), before.first, max(before.last, mark.last)))
            else:
                boxes.append(Box((mark,), mark.first, mark.last))
        return boxes


def plots(name: str, lanes: Sequence[Lane]) -> list[Plot]:
    """Return the plot of a partition, and a closer one if its findings take less than a quarter of it."""
    logs = [lane.log for lane in lanes if lane.log is not None]
    marks = [mark for lane in lanes for mark in lane.marks]
    low = min([*(log.log_start for log in logs), *(mark.first for mark in marks)], default=0)
    high = max([low + 1, *(max(log.log_end, log.mark) for log in logs), *(mark.last + 1 for mark in marks)])
    whole = Plot(name, lanes, low, high)
    if not marks:
        return [whole]
    first, last = min(mark.first for mark in marks), max(mark.last for mark in marks) + 1
    around = max((last - first) // 2, 4)
    closer = Plot(name, lanes, max(low, first - around), min(high, last + around))
    return [whole, closer] if closer.high - closer.low < (high - low) / 4 else [whole]


def divergence(result: Audit, key: TopicPartition) -> list[Plot]:
    findings = [(n, f) for n, f in enumerate(result.findings, 1) if f.key == key]
    logs = {r.replica: r for r in result.replicas if r.key == key and r.readable}
    lanes = []
    for replica in sorted({*logs, *(n for _, finding in findings for n in finding.replicas)}):
        marks = tuple(
            Mark(n, f.kind, f.first, f.last, f.wrong in (None, replica))
            for n, f in findings
            if f.first is not None and f.last is not None and replica in f.replicas
        )
        lanes.append(Lane(replica, logs.get(replica), result.epochs.get((*key, replica), ()), marks))
    return plots(name_of(*key), lanes)
