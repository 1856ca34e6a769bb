"""What a produce holds on to while it waits."""

from pathlib import Path

from cluster.broker.produce import ProduceResult, produce
from tests.cluster.broker.test_replica_sessions import LED, Leader
from tests.leader.replicas import record


async def test_records_are_let_go_when_they_are_appended(tmp_path: Path) -> None:
    """A bytearray cannot shrink while somebody has a view of it: who waits for acks=all has none."""
    leader = Leader(tmp_path)
    payload = bytearray(record(size=500))
    answers: list[list[ProduceResult]] = []
    produce(leader.manager, [(LED, memoryview(payload))], acks=-1, timeout_ms=1000, respond=answers.append)
    assert leader.log(LED).log_end_offset == 6
    assert answers == [], "it waits for its follower"
    payload.clear()
