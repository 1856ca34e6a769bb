"""The benchmark beside other systems: what is compared, and each of them run small."""

import filecmp
import json
import sys
from typing import NoReturn

import pytest

from benchmarks.peers import quick
from benchmarks.peers.kafka import KafkaPeer
from benchmarks.peers.peer import CLIENT, FAILED, CannotRun, Load, Settings, answered
from benchmarks.peers.quick import dropped, guarded
from benchmarks.peers.raw import FOLLOWERS, WARM_UP, RawPeer
from benchmarks.peers.replog import ReplogPeer, SecureReplogPeer
from benchmarks.peers.rows import (
    BULK,
    DEFAULTS,
    KIB,
    LARGE,
    PROMPT,
    SMALL,
    Pace,
    Produce,
    Rounds,
    cell,
    resolved,
    shown,
)
from benchmarks.peers.side_by_side import PEERS, rounds_of, turn
from replog.rpc.transports import CLIENT_CONFIG


def test_asking_for_a_default_is_the_same_work():
    defaults = KafkaPeer.defaults
    assert resolved(Produce(KIB, DEFAULTS), defaults) == resolved(Produce(KIB, SMALL), defaults)
    assert resolved(Produce(KIB, DEFAULTS), defaults) != resolved(Produce(KIB, LARGE), defaults)
    assert resolved(Pace(1000, PROMPT), defaults) == Pace(1000, Settings(16_384, 0))


def produced_at(mb_per_second: float, cpu_s: float = 6.0) -> dict[str, object]:
    return {"mb_per_second": mb_per_second, "cpu_s_per_gb": {"broker-1": cpu_s / 2, CLIENT: cpu_s / 2}}


def paced_at(p50_ms: float, cpu_ms: float = 1.0) -> dict[str, object]:
    return {
        "p50_ms": p50_ms,
        "p99_ms": 4 * p50_ms,
        "cpu_ms_per_record": {"broker-1": cpu_ms / 4, CLIENT: cpu_ms * 3 / 4},
    }


def report(ours: float = 100.0) -> Rounds:
    """Three rounds; the raw pipeline moves 400 MB/s."""
    pace, small = Pace(1000, DEFAULTS).key, Produce(KIB, SMALL).key
    return {
        "replog": [
            {BULK.key: produced_at(ours * share), pace: paced_at(2.0), small: produced_at(60.0)}
            for share in (1.0, 0.9, 3.0)
        ],
        "Kafka": [{small: produced_at(40.0)}],
        "raw sockets": [{BULK.key: produced_at(400.0, 1.5), pace: paced_at(0.5, 0.25)}] * 3,
    }


def row(text: str, label: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {label} ")]
    return [column.strip() for column in line.split("|")[2:-1]]


def test_the_table_has_medians_and_their_spread():
    assert row(shown(report()), "requests of 1 MiB, MB/s") == ["100 (90.0–300)", "–", "400"]
    assert row(shown(report()), "1 KiB, 16 KiB batches, MB/s") == ["60.0", "40.0", "–"]
    assert row(shown(report()), "CPU of all at 1,000 records/s, defaults, ms/record") == ["1.00", "–", "0.25"]
    assert cell([]) == "–"


def test_a_ratio_may_drop_by_less_than_a_fifth():
    stored = guarded(report())
    assert list(stored.values()) == [0.75, 0.25, 0.25, 0.25], "of the best rounds"
    assert not dropped(guarded(report(ours=81.0)), stored)
    assert dropped(guarded(report(ours=79.0)), stored) == [next(iter(stored))]


def test_a_record_that_failed_is_counted_and_not_timed():
    load = Load(per_second=1000)
    load.waits_us = [1000, FAILED, 3000, 9000]
    assert load.waits() == {0: 0.001, 2: 0.003, 3: 0.009}
    assert load.figures() == {"p50_ms": 3.0, "p99_ms": 9.0, "max_ms": 9.0, "failed_records": 1}
    begun = load._first + 0.0025
    assert load.waits(since=begun) == {3: 0.009}, "it was due later"
    assert load.waits(until=begun).keys() == {0, 2}
    with pytest.raises(ValueError, match="1 of 4 records failed"):
        answered({"waits_us": load.waits_us})


class _Absent(RawPeer):
    name = "absent"

    def running(self) -> NoReturn:
        raise CannotRun("install it")


class _Broken(RawPeer):
    name = "broken"

    def running(self) -> NoReturn:
        raise OSError("no disk")


def test_a_system_that_fails_costs_its_own_turn_and_is_named():
    figures, wrong = rounds_of({_Absent: [], _Broken: []}, rounds=2, seconds=1.0, note=lambda _: None)
    assert figures == {"broken": []}
    assert [told.partition(":")[0] for told in wrong] == [
        "Without absent", "broken failed in round 1", "broken failed in round 2"
    ]  # fmt: skip


ROWS = (*PEERS[SecureReplogPeer], BULK)  # each kind of row is among them


@pytest.mark.processes
@pytest.mark.parametrize("kind", [ReplogPeer, SecureReplogPeer], ids=lambda kind: kind.name)
async def test_a_system_does_the_work_of_its_rows(kind, tmp_path, monkeypatch):
    """Not Kafka: when the machine was busy, a record of its own client expired after two minutes."""
    monkeypatch.setattr(kind, "warm_up_mb", 1)
    monkeypatch.setenv(CLIENT_CONFIG, "")  # a secure one sets it
    told: list[str] = []
    figures = await turn(kind(tmp_path), ROWS, seconds=0.05, note=told.append)
    assert set(figures) == {row.key for row in ROWS}
    assert len(told) == len({id(of_row) for of_row in figures.values()})
    for key, of_row in figures.items():
        names = ("p50_ms", "p99_ms", "max_ms") if key.startswith("pace") else ("mb_per_second",)
        assert 0 < of_row[names[0]] <= of_row[names[-1]], (key, of_row)
        cpu = of_row.get("cpu_s_per_gb") or of_row["cpu_ms_per_record"]
        assert cpu[CLIENT] > 0, (key, of_row)
        assert len(cpu) >= 4, (key, of_row)


@pytest.mark.processes
async def test_raw_sockets_replicate_every_byte(tmp_path):
    """What replog is measured beside does the same: what is acknowledged is in three files."""
    peer = RawPeer(tmp_path)
    async with peer.running():
        await peer.make("topic")
        assert await peer.produce("topic", 100_000, 50, DEFAULTS) > 0
        waits = await peer.pace("topic", 1000, 100, 500.0, DEFAULTS)
    assert (len(waits), min(waits) > 0) == (100, True), waits
    leader, size = tmp_path / "topic" / "leader", WARM_UP[1] * (8 + WARM_UP[0]) + 50 * (8 + 100_000) + 100 * (8 + 1000)
    for name in FOLLOWERS:
        assert (leader.with_name(name)).stat().st_size == size
        assert filecmp.cmp(leader, leader.with_name(name), shallow=False)


def test_the_quick_look_fails_and_names_the_ratio_that_has_dropped(tmp_path, monkeypatch, capsys):
    stored = tmp_path / "stored.json"
    stored.write_text(json.dumps({"ratios": guarded(report())}))
    for ours, status in ((100.0, 0), (79.0, 1)):
        monkeypatch.setattr(quick, "rounds_of", lambda *_, ours=ours: (report(ours), []))
        monkeypatch.setattr(sys, "argv", ["quick", "--stored", str(stored)])
        assert quick.main() == status
    assert capsys.readouterr().err == "Dropped by more than 20%: requests of 1 MiB, MB/s: replog / raw sockets\n"
