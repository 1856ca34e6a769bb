"""Measures how a client that asks for much and takes nothing disturbs a steady producer of the same cluster.

For each attack of `attackers.py` a fresh cluster takes 1,000 records of 1 KiB a second, acks=all, each timed from when
it was due. Then the attack begins, from a process that gets only idle CPU time. In the first row that process only
computes, which shows the effect of the machine itself. Run it with `make bench-attacks`.
"""

import asyncio
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks.attackers import ATTACKS, Attack, prepare
from benchmarks.beside import Beside, Figures
from benchmarks.load import Load, write_everywhere
from benchmarks.measure import peak_bytes, precise_loop, reset_peak, rss_bytes
from benchmarks.memory import fill_page_cache
from benchmarks.peers.peer import CONTROLLER
from benchmarks.peers.replog import ReplogPeer, SecureReplogPeer
from benchmarks.report import benchmark_parser, publish, table
from replog.rpc.allocator import tune_allocator
from replog.rpc.limits import MIB

TOPIC, PARTITIONS, PER_SECOND = "steady", 6, 1000
WARM_UP_S = 3.0


async def measure(name: str, attack: Attack, home: Path, seconds: float, *, secure: bool) -> Figures:
    """Measure one attack for `seconds`, after as long without it."""
    cluster = (SecureReplogPeer if secure else ReplogPeer)(home)
    try:
        await cluster.start()
        await prepare(cluster.bootstrap)
        await cluster.create(TOPIC, PARTITIONS)
        async with cluster.producer() as send:
            await write_everywhere(send, TOPIC, PARTITIONS)
            async with (
                Load(send, TOPIC, PARTITIONS, PER_SECOND) as load,
                Beside.running("benchmarks.attackers", name, cluster.addresses[attack.at]) as attacker,
            ):
                await asyncio.sleep(WARM_UP_S)
                quiet = time.perf_counter()
                await asyncio.sleep(seconds)
                pid = cluster.members[attack.at]
                reset_peak(pid)
                resting, attacked = rss_bytes(pid), time.perf_counter()
                await attacker.order("begin")
                begun = time.perf_counter()
                await asyncio.sleep(seconds)
                ended, peak = time.perf_counter(), peak_bytes(pid)
        before = load.latency(quiet, attacked)
        return {
            "budget_mib": attack.budget / MIB,
            "grown_mib": max(0, peak - resting) / MIB,  # below 0 if the kernel counts the peak late
            "begun_s": begun - attacked,
            "before_p50_ms": before.p50_ms,
            "before_p99_ms": before.p99_ms,
            **load.figures(attacked, ended),
            "fenced": cluster.log(CONTROLLER).count("broker fenced"),
        }
    finally:
        await cluster.close()


def shown(report: Mapping[str, Figures]) -> str:
    head = [
        "attack", "may grow by, MiB", "grew by, MiB", "p99 before, ms", "p99 meanwhile, ms", "ratio", "longest, ms",
        "records given up", "brokers fenced",
    ]  # fmt: skip
    rows = []
    for name, figures in report.items():
        title = ATTACKS[name].title
        if "failed" in figures:
            rows.append([title, figures["failed"], *[""] * (len(head) - 2)])
            continue
        rows.append(
            [
                title,
                f"{figures['budget_mib']:,.0f}",
                f"{figures['grown_mib']:,.0f}",
                f"{figures['before_p99_ms']:.1f}",
                f"{figures['p99_ms']:.1f}",
                f"{figures['p99_ms'] / figures['before_p99_ms']:.1f}",
                f"{figures['max_ms']:,.0f}",
                f"{figures['failed_records']:,}",
                str(figures["fenced"]),
            ]
        )
    return table(head, rows)


def run(name: str, seconds: float, note: Callable[[str], None], *, secure: bool) -> Figures:
    home = Path(tempfile.mkdtemp(prefix="replog-bench-"))
    try:
        with asyncio.Runner(loop_factory=precise_loop) as runner:
            figures = runner.run(measure(name, ATTACKS[name], home / "cluster", seconds, secure=secure))
    except (OSError, RuntimeError) as error:
        figures = {"failed": f"{type(error).__name__}: {error}"}
    finally:
        shutil.rmtree(home, ignore_errors=True)
    note(f"{name}: {figures}")
    return figures


def main() -> int:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--only", choices=ATTACKS, action="append", help="may be given several times")
    parser.add_argument("--seconds", type=float, default=12.0, help="without an attack, and as long with it")
    parser.add_argument("--secure", action="store_true", help="a cluster with TLS and an authorizer")
    options = parser.parse_args()
    console = Console(stderr=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # otherwise nothing is cleaned up
    tune_allocator()
    names = options.only or list(ATTACKS)
    note = partial(console.print, highlight=False)
    report: dict[str, Figures] = {}
    for name in names:
        fill_page_cache(note)
        report[name] = run(name, options.seconds, note, secure=options.secure)
    publish("attacks-secure" if options.secure else "attacks", shown(report), {"attacks": report}, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
