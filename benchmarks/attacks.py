"""What one client can do to a cluster by asking for much and taking nothing, seen from a steady producer beside it.

For each attack of `attackers.py` a fresh cluster, a controller and three brokers with their default settings, takes
1,000 records of 1 KiB a second over six partitions with three replicas, acks=all, each timed from when it was due. Then
the attack comes on top, from a process of its own with the lowest priority, so that it takes no CPU that the cluster
wants. Reported are by how much the attacked process grew at most beside what it may grow, the producer's p99 before and
meanwhile, records that it gave up, and how often the controller fenced a broker.

Run it with `make bench-attacks`.
"""

import argparse
import asyncio
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.attackers import ATTACKS, Attack, prepare
from benchmarks.contenders import CONTROLLER
from benchmarks.contenders.replog import Replog
from benchmarks.load import Load, write_everywhere
from benchmarks.measure import peak_bytes, precise_loop, reset_peak, rss_bytes
from benchmarks.report import add_outputs, publish
from replog.rpc.limits import MIB
from replog.rpc.options import tune_allocator

TOPIC, PARTITIONS, PER_SECOND = "steady", 6, 1000
WARM_UP_S = 3.0
BEGIN_S = 120.0  # for an attack to get under way

Figures = dict[str, Any]


async def measure(name: str, attack: Attack, home: Path, seconds: float) -> Figures:
    """One attack, for so long, after as long without it."""
    cluster = Replog(home)
    try:
        await cluster.start()
        await prepare(cluster.bootstrap)
        await cluster.create(TOPIC, PARTITIONS)
        async with cluster.producer() as send:
            await write_everywhere(send, TOPIC, PARTITIONS)
            async with (
                Load(send, TOPIC, PARTITIONS, PER_SECOND) as load,
                _attacker(name, cluster.addresses[attack.at]) as begin,
            ):
                await asyncio.sleep(WARM_UP_S)
                quiet = time.perf_counter()
                await asyncio.sleep(seconds)
                pid = cluster.pids[attack.at]
                reset_peak(pid)
                resting, attacked = rss_bytes(pid), time.perf_counter()
                await begin()
                begun = time.perf_counter()
                await asyncio.sleep(seconds)
                ended, peak = time.perf_counter(), peak_bytes(pid)
        before, meanwhile = load.latency(quiet, attacked), load.latency(attacked, ended)
        return {
            "budget_mib": attack.budget / MIB,
            "grown_mib": (peak - resting) / MIB,
            "begun_s": begun - attacked,
            "before_p50_ms": before.p50_ms,
            "before_p99_ms": before.p99_ms,
            "p50_ms": meanwhile.p50_ms,
            "p99_ms": meanwhile.p99_ms,
            "max_ms": meanwhile.max_ms,
            "failed_records": len(load.failed),
            "fenced": cluster.log(CONTROLLER).count("broker fenced"),
        }
    finally:
        await cluster.close()


def _put_last(session: int) -> None:
    """Where Linux schedules sessions against each other, `nice` counts within one only."""
    with contextlib.suppress(FileNotFoundError):
        Path(f"/proc/{session}/autogroup").write_text("19")


@contextlib.asynccontextmanager
async def _attacker(name: str, address: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Its process, loaded and waiting, so that its start is no part of the attack; what is given has it begin, and
    returns when the attack is under way. Raises RuntimeError if it ends by itself."""
    process = await asyncio.create_subprocess_exec(
        "nice", "-n", "19", sys.executable, "-m", "benchmarks.attackers", name, address,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    _put_last(process.pid)
    orders, answers = process.stdin, process.stdout

    async def hear() -> None:
        async with asyncio.timeout(BEGIN_S):
            if not await answers.readline():
                raise RuntimeError(f"the attacker ended with status {await process.wait()}")

    async def begin() -> None:
        orders.write(b"\n")
        await hear()

    try:
        await hear()
        yield begin
        if process.returncode is not None:
            raise RuntimeError(f"the attacker ended with status {process.returncode}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def table(report: Mapping[str, Figures]) -> str:
    head = [
        "attack", "may grow by, MiB", "grew by, MiB", "p99 before, ms", "p99 meanwhile, ms", "ratio", "longest, ms",
        "records given up", "brokers fenced",
    ]  # fmt: skip
    rows = [head, ["---"] * len(head)]
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
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def run(name: str, seconds: float, note: Callable[[str], None]) -> Figures:
    home = Path(tempfile.mkdtemp(prefix="replog-bench-"))
    try:
        with asyncio.Runner(loop_factory=precise_loop) as runner:
            figures = runner.run(measure(name, ATTACKS[name], home / "cluster", seconds))
    except (RuntimeError, TimeoutError) as error:
        figures = {"failed": f"{type(error).__name__}: {error}"}
    finally:
        shutil.rmtree(home, ignore_errors=True)
    note(f"{name}: {figures}")
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=ATTACKS, action="append", help="may be given several times")
    parser.add_argument("--seconds", type=float, default=12.0, help="without an attack, and as long with it")
    add_outputs(parser)
    options = parser.parse_args()
    console = Console(stderr=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up then, too
    tune_allocator()
    names = options.only or list(ATTACKS)
    report = {name: run(name, options.seconds, lambda line: console.print(line, highlight=False)) for name in names}
    publish("attacks", table(report), {"attacks": report}, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
