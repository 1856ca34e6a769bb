"""The benchmark beside other systems: what their programs print, what is compared, and each of them run small."""

import json
from typing import NoReturn

import pytest

from benchmarks.peers.kafka import KafkaPeer, consumed, produced
from benchmarks.peers.peer import CLIENT, CannotRun, Settings
from benchmarks.peers.ratios import best_rate, dropped, guarded, judged
from benchmarks.peers.raw import RawPeer
from benchmarks.peers.rows import BULK, DEFAULTS, KIB, LARGE, PROMPT, SMALL, Pace, Produce, resolved
from benchmarks.peers.side_by_side import PEERS, rounds_of, turn
from benchmarks.peers.table import Rounds, cell, shown
from replog.rpc.transports import CLIENT_CONFIG

PRODUCER_PRINTS = """\
Reading payloads from: /tmp/1024-bytes
Number of messages read: 1
150001 records sent, 30000.2 records/sec (29.30 MB/sec), 900.0 ms avg latency, 1510.0 ms max latency.
200000 records sent, 40000.0 records/sec (39.06 MB/sec), 775.50 ms avg latency, 1510.00 ms max latency, 799 ms 50th, \
1190 ms 95th, 1300 ms 99th, 1492 ms 99.9th.
"""
CONSUMER_PRINTS = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, \
fetch.MB.sec, fetch.nMsg.sec
2026-11-23 15:00:00:000, 2026-11-23 15:00:05:500, 97.7520, 17.7730, 100098, 18199.6364, 3500, 2000, 48.8760, 50049.0000
"""


def test_kafkas_producer_is_timed_by_its_own_total():
    assert produced(PRODUCER_PRINTS, 200_000) == 5.0
    with pytest.raises(ValueError, match="was to send 200001 records"):
        produced(PRODUCER_PRINTS, 200_001)
    with pytest.raises(ValueError, match="out of memory"):
        produced("out of memory", 1)


def test_kafkas_consumer_is_timed_without_the_joining_of_its_group():
    assert consumed(CONSUMER_PRINTS, 100_098) == 2.0
    assert consumed(CONSUMER_PRINTS, 50_049) == 1.0, "it reads to the end of a batch, which is not to its loss"
    with pytest.raises(ValueError, match="was to read 100099 records"):
        consumed(CONSUMER_PRINTS, 100_099)
    with pytest.raises(ValueError, match="says: WARNING"):
        consumed("WARNING: Exiting before consuming the expected number of messages", 1)


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


def test_what_is_wanted_is_judged_as_far_as_it_was_measured():
    text = judged(report())
    assert row(text, "requests of 1 MiB / raw sockets") == ["0.25", "at least 0.45", "no"]
    assert row(text, "1 KiB, 16 KiB batches / Kafka") == ["1.50", "at least 2.00", "no"]
    assert row(text, "p50 at 1,000 records/s, ms") == ["2.00", "at most 1.00", "no"]
    assert "best settings" not in text
    assert row(judged(report(ours=200.0)), "requests of 1 MiB / raw sockets") == ["0.50", "at least 0.45", "yes"]


def test_the_best_of_all_settings_counts():
    rates = {DEFAULTS: 8.0, LARGE: 9.0, SMALL: 7.0}
    rounds = [{Produce(KIB, settings).key: produced_at(rate) for settings, rate in rates.items()}]
    assert best_rate({"replog": rounds}, "replog", KIB) == 9.0


def test_a_ratio_may_drop_by_less_than_a_fifth():
    stored = guarded(report())
    assert list(stored.values()) == [0.75, 0.25, 0.25, 0.25], "of the best rounds"
    assert not dropped(guarded(report(ours=81.0)), stored)
    assert dropped(guarded(report(ours=79.0)), stored) == [next(iter(stored))]


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


@pytest.mark.processes
@pytest.mark.parametrize("kind", [kind for kind in PEERS if kind is not KafkaPeer], ids=lambda kind: kind.name)
async def test_a_system_does_the_work_of_its_rows(kind, tmp_path, monkeypatch):
    """Except Kafka: when the machine was busy, a record of its own client expired after two minutes."""
    monkeypatch.setattr(kind, "warm_up_mb", 1)
    monkeypatch.setenv(CLIENT_CONFIG, "")  # a secure one sets it
    told: list[str] = []
    try:
        figures = await turn(kind(tmp_path), PEERS[kind], seconds=0.05, note=told.append)
    except CannotRun as error:
        pytest.skip(str(error))
    assert set(figures) == {row.key for row in PEERS[kind]}
    assert len(told) == len({id(of_row) for of_row in figures.values()})
    for key, of_row in figures.items():
        names = ("p50_ms", "p99_ms", "max_ms") if key.startswith("pace") else ("mb_per_second",)
        assert 0 < of_row[names[0]] <= of_row[names[-1]], (key, of_row)
        cpu = of_row.get("cpu_s_per_gb") or of_row["cpu_ms_per_record"]
        assert cpu[CLIENT] >= 0, (key, of_row)
        assert len(cpu) >= 4, (key, of_row)


@pytest.mark.processes
def test_the_quick_look_fails_and_names_the_ratio_that_has_dropped(run_benchmark, tmp_path):
    stored = tmp_path / "stored.json"
    pace, raw = Pace(1000, DEFAULTS).key, {"raw sockets": report()["raw sockets"]}
    quick_and_dear = {BULK.key: produced_at(4_000.0, 10_000.0), pace: paced_at(10_000.0, 10_000.0)}
    stored.write_text(json.dumps({"ratios": guarded({"replog": [quick_and_dear], **raw})}))
    # In a tenth of a second the raw peer may use less CPU than one tick of the clock: that ratio is 0 then.
    named = "requests of 1 MiB, MB/s: replog / raw sockets(; CPU of a record then: raw sockets / replog)?"
    with pytest.raises(AssertionError, match=f"Dropped by more than 20%: {named}\n"):
        run_benchmark("peers.quick", "--stored", stored, "--rounds", 1, "--seconds", 0.1)
