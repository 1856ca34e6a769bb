"""Checks of clients and replicas, for `make chaos` and for a local cluster; unavailability by kind of fault."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from replog.chaos.client import ASSIGNED, PARTITIONS, TOPICS, Gathered
from replog.demo.traffic import drained, read_back
from replog.simulator.checks.anomalies import find_anomalies
from replog.simulator.history import History, Outcome, ProducerSend
from replog.topic import TopicPartition

SHOWN = 20


def waiting_since(notes: Gathered, life: str, since: float) -> str:
    """Name the partitions in which a client has no acknowledgement of a record sent after `since`, or read nothing."""
    acknowledged, positions = notes.acknowledged_at.get(life, {}), notes.positions.get(life, {})
    waiting = [str(p) for p in ASSIGNED if acknowledged.get(p, 0.0) <= since or p not in positions]
    return f"{life} waits for {', '.join(waiting)}" if waiting else ""


async def drain(bootstrap: str, history: History) -> None:
    """Read everything with a fresh consumer, into `history.drained`."""
    for topic in TOPICS:
        readable = await read_back(bootstrap, topic, PARTITIONS, lambda _: None)
        names = [(number, offset, value.split(b" ")[0]) for number, offset, value in readable]
        history.drained |= drained(topic, PARTITIONS, names)


def require_honest(history: History) -> None:
    """INV-11, INV-17, INV-18: raise AssertionError if a record was lost, doubled, reordered or vanished."""
    anomalies = find_anomalies(history)
    assert not anomalies, "\n".join(map(str, anomalies[:SHOWN]))


def require_same_records(replicas: Mapping[TopicPartition, Iterable[Path]]) -> None:
    """Raise AssertionError unless the `.log` bytes of each partition's replicas are the same."""
    different = [str(partition) for partition, homes in replicas.items() if len(set(map(_log_bytes, homes))) > 1]
    assert not different, f"replicas differ: {', '.join(different)}"


def _log_bytes(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(home.glob("*.log")))


@dataclass(frozen=True, slots=True)
class Episode:
    """One fault: the times when it began, was mended, and everything was in sync again, as in the history."""

    kind: str
    begun: float
    mended: float
    in_sync: float
    longest_wait_s: float  # the longest of records sent meanwhile that were acknowledged
    acknowledged: int
    failed: int  # records that the producer gave up

    @classmethod
    def of(cls, kind: str, begun: float, mended: float, in_sync: float, sends: Iterable[ProducerSend]) -> "Episode":
        meanwhile = [send for send in sends if begun <= send.invoked_s <= in_sync]
        waits = [
            send.completed_s - send.invoked_s
            for send in meanwhile
            if send.outcome is Outcome.OK and send.completed_s is not None
        ]
        failed = sum(send.outcome in (Outcome.FAILED, Outcome.UNKNOWN) for send in meanwhile)
        return cls(kind, begun, mended, in_sync, max(waits, default=0.0), len(waits), failed)


def table(episodes: Sequence[Episode]) -> str:
    """Return a table in Markdown, with the worst kinds first."""
    kinds: dict[str, list[Episode]] = {}
    for episode in episodes:
        kinds.setdefault(episode.kind, []).append(episode)
    rows = sorted(kinds.items(), key=lambda item: -max(episode.longest_wait_s for episode in item[1]))
    lines = [
        "| fault | times | held, s | longest wait for an acknowledgement, s | worst | in sync after, s | failed |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, of_kind in rows:
        held = statistics.median(episode.mended - episode.begun for episode in of_kind)
        waits = [episode.longest_wait_s for episode in of_kind]
        healing = statistics.median(episode.in_sync - episode.mended for episode in of_kind)
        failed = sum(episode.failed for episode in of_kind)
        lines.append(
            f"| {kind} | {len(of_kind)} | {held:.1f} | {statistics.median(waits):.1f} | {max(waits):.1f} | "
            f"{healing:.1f} | {failed} |"
        )
    return "\n".join(lines)
