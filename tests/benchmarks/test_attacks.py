"""The benchmark of attacks runs, small, and reports what its processes did."""

import sys
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import SimpleNamespace

import pytest

from benchmarks import attacks
from benchmarks.attackers import ATTACKS, prepare
from benchmarks.attacks import measure, shown
from benchmarks.harness import Beside
from replog.rpc.limits import MIB

FOUND = {
    "budget_mib": 96.0,
    "grown_mib": 1234.0,
    "before_p99_ms": 10.0,
    "p99_ms": 25.0,
    "max_ms": 1500.0,
    "failed_records": 3,
    "fenced": 1,
}


def test_the_table_has_a_row_for_each_attack_and_says_what_failed():
    rows = shown({"look-up": FOUND, "idle": {"failed": "TimeoutError: late"}}).splitlines()[2:]
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    assert cells[0][1:] == ["96", "1,234", "10", "25", "1,500", "3", "1"]
    assert cells[1][:2] == ["10,000 idle streams at the controller", "TimeoutError: late"]
    assert len(cells[0]) == len(cells[1])


BUSY = "import asyncio, sys; from benchmarks.attackers import main; asyncio.run(main(*sys.argv[1:]))"


def busy(name: str, command: list[str]) -> AbstractAsyncContextManager[Beside]:
    """The attacker, which gets more than idle CPU time: beside other tests there is none."""
    return Beside.program(name, [sys.executable, "-c", BUSY, *command[-2:]])


@pytest.mark.processes
async def test_an_attack_is_measured_beside_a_producer(tmp_path, monkeypatch):
    monkeypatch.setattr(attacks, "WARM_UP_S", 1.0)
    monkeypatch.setattr(attacks, "Beside", SimpleNamespace(program=busy))
    monkeypatch.setattr("benchmarks.attackers.PACKED_PARTITIONS", 1)
    monkeypatch.setattr("benchmarks.attackers.STORED", 4 * MIB)
    monkeypatch.setattr(attacks, "prepare", partial(prepare, expanded=MIB))  # a broker unpacks that
    measured = await measure("parked", ATTACKS["parked"], tmp_path / "cluster", 2.0, secure=False)
    assert measured["before_p99_ms"] > 0, measured
    assert 0 < measured["p50_ms"] <= measured["p99_ms"] <= measured["max_ms"], measured
    assert 0 <= measured["grown_mib"] < measured["budget_mib"], measured
    assert measured["failed_records"] == 0, measured
