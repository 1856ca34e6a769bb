"""The state of every replica of every partition, and the page's map of it. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from replog.topic import TopicPartition
from spark_jobs.audit.audit import Audit
from spark_jobs.audit.findings import AuditFinding
from spark_jobs.audit.text import number
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
# Widths in pixels of a line, a cell, the start of a group, a letter and a digit; then the letters of a name.
_LINE, _COLUMN, _BEGIN, _LETTER, _DIGIT, _LONGEST = 890, 28, 6, 7, 8, 30


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
class TopicCells:
    """Neighbouring partitions of one topic; `columns` are (label, cells by replica)."""

    topic: str
    columns: list[tuple[str, list[Cell]]] = field(default_factory=list)

    @property
    def width(self) -> int:
        return len(self.columns)


@dataclass
class Map:
    """Lines of groups, as wide as the page; `counts` counts all cells, `left_out` the partitions that are not drawn."""

    replicas: list[int]
    lines: list[list[TopicCells]]
    counts: dict[str, int]
    partitions: int
    left_out: int = 0
    left_out_states: str = ""


def overview(result: Audit, listed: int) -> Map:
    """Return the map. If it would be too large, whole partitions are left out, those with the best states first."""
    standing = states(result)
    replicas = sorted({*result.directories, *(place[2] for place in standing)})
    partitions: dict[TopicPartition, dict[int, str]] = defaultdict(dict)
    for (topic, partition, replica), state in standing.items():
        partitions[TopicPartition(topic, partition)][replica] = state
    keys = sorted(partitions)
    against = concerned(result)
    for n in (n for _, partition, n in standing if partition < 0):
        for key in keys:  # an unreadable log directory may have a replica of any partition
            if n not in partitions[key]:
                partitions[key][n] = UNREAD
                against[(*key, n)] = against["", -1, n]
    counts = Counter(state for held in partitions.values() for state in held.values())
    counts[ABSENT] = len(keys) * len(replicas) - sum(counts.values())
    drawn = keys[:]
    room = MAX_CELLS // max(len(replicas), 1)
    if len(keys) > room:
        worst = sorted(keys, key=lambda key: (min(STATES.index(state) for state in partitions[key].values()), key))
        drawn = sorted(worst[:room])
    without = Counter(min(partitions[key].values(), key=STATES.index) for key in set(keys) - set(drawn))
    described = {replica.place: replica for replica in result.replicas}
    groups: dict[str, TopicCells] = {}
    for key in drawn:
        cells = [
            _cell(partitions[key].get(n, ABSENT), described.get((*key, n)), against.get((*key, n), []), listed)
            for n in replicas
        ]
        groups.setdefault(key[0], TopicCells(key[0])).columns.append((str(key[1]) if key[1] >= 0 else "all", cells))
    return Map(
        replicas,
        _lines(groups.values()),
        {state: counts[state] for state in STATES},
        len(keys),
        len(keys) - len(drawn),
        ", ".join(f"{number(count)} {state}" for state, count in sorted(without.items())),
    )


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


def _lines(groups: Iterable[TopicCells]) -> list[list[TopicCells]]:
    """Cut and pack the groups so that each line is about as wide as the page."""
    lines: list[list[TopicCells]] = []
    room = 0
    for group in groups:
        name = min(len(group.topic), _LONGEST) * _LETTER + 16
        column = max(_COLUMN, _DIGIT * max(len(label) for label, _ in group.columns) + 7)
        rest = group.columns
        while rest:
            if room < max(name, _BEGIN + column * min(len(rest), 8)):
                lines.append([])
                room = _LINE
            taken = rest[: (room - _BEGIN) // column]
            rest = rest[len(taken) :]
            lines[-1].append(TopicCells(group.topic, taken))
            room -= max(name, _BEGIN + column * len(taken))
    return lines
