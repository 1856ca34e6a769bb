"""The benchmark of many partitions runs, small, and what it reports adds up."""

import asyncio
from collections.abc import Awaitable

import pytest

from benchmarks import partition_phases
from benchmarks.load import Load
from benchmarks.partition_table import shown
from benchmarks.peers.replog import ReplogPeer
from benchmarks.report import marks, write

UNFINISHED = {"start": {"seconds": 1.0}, "create": {"not_within_s": 60}}


def finished(seconds: float) -> dict[str, dict[str, float]]:
    return {"start": {"seconds": 1.0}, "create": {"seconds": seconds}}


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def row(text: str, label: str) -> list[str]:
    (cells,) = [cells for cells in rows(text) if cells[0] == label]
    return cells[1:]


def test_a_pause_is_in_every_record_that_was_due_in_it():
    """A sender that is held up for half a second does not leave out what it should have sent meanwhile."""

    async def run() -> Load:
        held_up = False

        async def send(_topic: str, _partition: int, _value: bytes) -> Awaitable[object]:
            nonlocal held_up
            if not held_up:
                held_up = True
                await asyncio.sleep(0.5)
            return asyncio.sleep(0)

        async with Load(send, "topic", 3, per_second=100) as load:
            await asyncio.sleep(0.7)
        return load

    load = asyncio.run(run())
    assert sum(wait > 0.1 for _, _, wait in load.waits) >= 30
    assert load.longest_wait({0}, since=0.0) >= 0.5
    assert 0.4 < load.longest_wait({1, 2}, since=0.0) < load.longest_wait({0}, since=0.0)


def test_what_failed_is_counted_and_not_timed():
    async def run() -> Load:
        async def refuse() -> object:
            raise OSError("no")

        async def send(_topic: str, partition: int, _value: bytes) -> Awaitable[object]:
            return refuse() if partition else asyncio.sleep(0)

        async with Load(send, "topic", 2, per_second=200) as load:
            await asyncio.sleep(0.2)
        return load

    load = asyncio.run(run())
    assert {partition for _, partition, _ in load.waits} == {0}
    assert abs(len(load.failed) - len(load.waits)) <= 1


def test_the_table_has_medians_and_says_what_did_not_finish():
    rounds = [finished(1.0), finished(9.0), finished(2.0)]
    text = shown({"replog": {"6": rounds, "5000": [finished(1.0), UNFINISHED]}, "Kafka": {"6": [finished(4.0)]}})
    assert row(text, "") == ["replog, 6", "replog, 5,000", "Kafka, 6"]
    assert row(text, "created on every disk, s") == ["2.00", "not within 60 s", "4.00"]
    assert row(text, "p99, ms") == ["–", "–", "–"]


def test_the_report_replaces_what_is_between_its_marks_and_nothing_else(tmp_path):
    document = tmp_path / "performance.md"
    begin, end = marks("partitions")
    document.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    write(document, "partitions", "| new |")
    write(document, "partitions", "| newer |")
    assert document.read_text() == f"before\n{begin}\n\n| newer |\n\n{end}\nafter\n"
    document.write_text("no marks")
    with pytest.raises(ValueError, match="has no lines"):
        write(document, "partitions", "| new |")


@pytest.mark.processes
async def test_a_topic_lives_its_whole_life_beside_a_producer(tmp_path, monkeypatch):
    monkeypatch.setattr(partition_phases, "LIMIT_S", 600.0)
    monkeypatch.setattr(partition_phases, "LONG_S", {})
    told: list[str] = []
    phases = await partition_phases.Cell(ReplogPeer(tmp_path / "cluster"), 6, 1.0, 1.0, told.append).run(1200.0)
    for phase in ("start", "create", "first", "fail_over", "restart", "orderly", "delete"):
        assert phases[phase]["seconds"] > 0, told
    load = phases["load"]
    assert 0 < load["p50_ms"] <= load["p99_ms"] <= load["max_ms"], told
    assert load["failed_records"] == 0, told
    assert 0 <= load["moved"] <= 6, told
    assert load["broker_mib"] > 20, told
    assert phases["fail_over"]["led_wait_s"] > 0, told
    for phase in ("quiet", "create", "delete", "removed"):
        assert 0 < phases[phase]["steady_p50_ms"] <= phases[phase]["steady_p99_ms"], told
    assert "not" not in "".join(row(shown({"replog": {"6": [phases]}}), "deleted on every disk, s")), told
