"""Measures how a client that asks for much and takes nothing disturbs a steady producer of the same cluster.

For each attack of `attackers.py` a fresh cluster takes 1,000 records of 1 KiB a second, acks=all, each timed from when
it was due. Then the attack begins, from a process that gets only idle CPU time. Run it with `make bench-attacks`.
"""

import asyncio
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.attackers import ATTACKS, Attack, prepare
from benchmarks.harness import (
    Beside,
    Figures,
    benchmark_parser,
    fill_page_cache,
    homes,
    parsed,
    peak_bytes,
    precise_loop,
    publish,
    reset_peak,
    rss_bytes,
    table,
)
from benchmarks.peers.peer import CONTROLLER, load
from benchmarks.peers.replog import ReplogPeer, SecureReplogPeer
from replog.rpc.limits import MIB

TOPIC, PARTITIONS, PER_SECOND = "steady", 6, 1000
WARM_UP_S = 3.0
COLUMNS = {
    "may grow by, MiB": "budget_mib",
    "grew by, MiB": "grown_mib",
    "p99 before, ms": "before_p99_ms",
    "p99 meanwhile, ms": "p99_ms",
    "longest, ms": "max_ms",
    "records given up": "failed_records",
    "brokers fenced": "fenced",
}


async def measure(name: str, attack: Attack, home: Path, seconds: float, *, secure: bool) -> Figures:
    """Measure one attack for `seconds`, after as long without it."""
    cluster = (SecureReplogPeer if secure else ReplogPeer)(home)
    try:
        await cluster.start()
        await prepare(cluster.bootstrap)
        await cluster.create(TOPIC, PARTITIONS)
        address = cluster.local.state.member(attack.at).address
        async with (
            load(cluster, {TOPIC: PARTITIONS}, PER_SECOND) as steady,
            Beside.program(name, [sys.executable, "-m", "benchmarks.attackers", name, address]) as attacker,
        ):
            await asyncio.sleep(WARM_UP_S)
            quiet = time.perf_counter()
            await asyncio.sleep(seconds)
            pid = cluster.members[attack.at]
            reset_peak(pid)
            resting, attacked = rss_bytes(pid), time.perf_counter()
            await attacker.order("begin")
            await asyncio.sleep(seconds)
            ended, peak = time.perf_counter(), peak_bytes(pid)
        log = cluster.local.log_file(cluster.local.state.member(CONTROLLER))
        return {
            "budget_mib": attack.budget / MIB,
            "grown_mib": max(0, peak - resting) / MIB,  # below 0 if the kernel counts the peak late
            "before_p99_ms": steady.figures(quiet, attacked)["p99_ms"],
            **steady.figures(attacked, ended),
            "fenced": log.read_text().count("broker fenced"),
        }
    finally:
        await cluster.close()


def shown(report: Mapping[str, Figures]) -> str:
    rows = []
    for name, figures in report.items():
        cells = [figures["failed"], *[""] * (len(COLUMNS) - 1)] if "failed" in figures else []
        rows.append([ATTACKS[name].title, *(cells or [f"{figures[figure]:,.4g}" for figure in COLUMNS.values()])])
    return table(["attack", *COLUMNS], rows)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--only", choices=ATTACKS, action="append", help="may be given several times")
    parser.add_argument("--seconds", type=float, default=12.0, help="without an attack, and as long with it")
    parser.add_argument("--secure", action="store_true", help="a cluster with TLS and an authorizer")
    options, note = parsed(parser)
    report: dict[str, Figures] = {}
    for name in options.only or ATTACKS:
        fill_page_cache(note)
        with homes() as home, asyncio.Runner(loop_factory=precise_loop) as runner:
            attack = measure(name, ATTACKS[name], home / "cluster", options.seconds, secure=options.secure)
            try:
                report[name] = runner.run(attack)
            except (OSError, RuntimeError) as error:
                report[name] = {"failed": f"{type(error).__name__}: {error}"}
        note(f"{name}: {report[name]}")
    publish("attacks", shown(report), {"secure": options.secure, **report}, options)


if __name__ == "__main__":
    main()
