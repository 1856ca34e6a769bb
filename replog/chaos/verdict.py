"""Checks of clients and replicas, for `make chaos` and for a local cluster."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from replog.chaos.client import ASSIGNED, PARTITIONS, TOPICS
from replog.chaos.notes import Gathered
from replog.demo.traffic import drained, read_back
from replog.simulator.checks.anomalies import find_anomalies
from replog.simulator.history import History
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
