"""Counts what an acknowledged record costs inside: function calls, messages, writes, turns of the event loop.

A controller, three brokers and a producer run in one process and on one event loop, over real sockets and files, so a
profiler sees all of them. Records of 1 KiB with acks=all go to six partitions with three replicas each. Lone records
are counted: each is sent some milliseconds after the one before it was acknowledged, so no two share a request, however
slow the profiler is, and the counts hardly vary. `make bench` measures CPU and latency, in separate processes.

Run it with `make bench-inside`.
"""

import asyncio
import cProfile
import itertools
import logging
import os
import pstats
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog

from benchmarks.harness import benchmark_parser, homes, parsed, publish, table
from benchmarks.peers.peer import RECORD_BYTES
from benchmarks.peers.replog import LOCAL_TO_BROKERS
from replog.client import Producer
from replog.config.processes import BrokerConfig
from replog.rpc.http2.protocol.outflow import Outflow
from tests.replog.server.broker.conftest import InProcessCluster

TOPIC, PARTITIONS, BROKERS = "t", 6, 3
GAP_S = 0.005  # the pause after a lone record's acknowledgement, by the end of which all its work is done
ROOT = Path(__file__).parents[1]
PARTS = (  # a file counts for the first of these that it lies in
    "replog/rpc/http2",
    "replog/rpc",
    "replog/client",
    "replog/server",
    "replog/log",
    "leader",
    "follower",
    "replog",
    "benchmarks",
)
SYSTEM = ("posix.", "'socket'", "'_socket", "'select.", "send", "recv")  # names of functions that call the kernel


class TurnsLoop(asyncio.SelectorEventLoop):
    turns = 0

    def _run_once(self) -> None:
        self.turns += 1
        super()._run_once()  # type: ignore[misc]


@asynccontextmanager
async def cluster(directory: Path) -> AsyncIterator[str]:
    """Run a cluster and its topic in this process, with default settings, and yield its brokers' addresses."""
    running, fields = InProcessCluster(directory), BrokerConfig.model_fields
    try:
        await running.start_controller()
        await running.begin(BROKERS, PARTITIONS, brokers={name: fields[name].default for name in LOCAL_TO_BROKERS})
        yield ",".join(broker.address for broker in running.brokers.values())
    finally:
        await running.stop()


async def send_alone(addresses: str, seconds: float, profile: cProfile.Profile) -> int:
    """Profile lone records for so many seconds, and return their number."""
    record = os.urandom(RECORD_BYTES)
    async with Producer(addresses) as producer:
        for partition in range(PARTITIONS):
            await (await producer.send(TOPIC, record, partition=partition))
        end = time.perf_counter() + seconds
        profile.enable()
        for number in itertools.count():
            if time.perf_counter() >= end:
                break
            await (await producer.send(TOPIC, record, partition=number % PARTITIONS))
            await asyncio.sleep(GAP_S)
        profile.disable()
    return number


def part_of(file: str, name: str) -> str:
    if file == "~":
        return "the kernel" if any(word in name for word in SYSTEM) else "functions of C"
    path = Path(file)
    if path.is_relative_to(ROOT) and ".venv" not in path.parts:
        return next((part for part in PARTS if path.is_relative_to(ROOT / part)), "other")
    return "asyncio" if "asyncio" in path.parts else "other"


def parts(profile: cProfile.Profile, records: int) -> list[dict[str, Any]]:
    """Return each part's calls a record, and its share of the time in functions themselves, the largest first."""
    calls, seconds = Counter[str](), Counter[str]()
    for (file, _, name), (_, count, own_s, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        part = part_of(file, name)
        calls[part] += count
        seconds[part] += own_s
    total_s = sum(seconds.values())
    return [
        {"part": part, "calls": calls[part] / records, "share": own_s / total_s}
        for part, own_s in seconds.most_common()
    ]


def times(profile: cProfile.Profile, file: str, line: int, name: str) -> int:
    """Return the number of calls of a function."""
    return pstats.Stats(profile).stats[file, line, name][1]  # type: ignore[attr-defined,no-any-return]


async def measure(seconds: float) -> dict[str, Any]:
    profile = cProfile.Profile(time.process_time)  # waits do not count
    loop = asyncio.get_running_loop()
    assert isinstance(loop, TurnsLoop)
    with homes() as home:
        async with cluster(home) as addresses:
            turns = loop.turns
            records = await send_alone(addresses, seconds, profile)
            turns = loop.turns - turns
    message = Outflow.send_message.__code__
    counts = {
        "messages": times(profile, message.co_filename, message.co_firstlineno, message.co_name),
        "socket_writes": times(profile, "~", 0, "<built-in method posix.writev>"),
        "file_writes": times(profile, "~", 0, "<built-in method posix.pwritev>"),
        "turns": turns,
    }
    return {"parts": parts(profile, records), **{name: count / records for name, count in counts.items()}}


def shown(figures: dict[str, Any]) -> str:
    rows = [[part["part"], f"{part['calls']:.0f}", f"{part['share']:.0%}"] for part in figures["parts"]]
    rows.append(["all", f"{sum(part['calls'] for part in figures['parts']):.0f}", ""])
    return (
        table(["part", "calls a lone record", "of the profiled CPU time"], rows)
        + f"\n\nA lone record takes {figures['messages']:.1f} messages, {figures['socket_writes']:.1f} writes to "
        f"sockets, {figures['file_writes']:.1f} to files and {figures['turns']:.1f} turns of the loop."
    )


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="with the profiler")
    options, _ = parsed(parser)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with asyncio.Runner(loop_factory=TurnsLoop) as runner:
        figures = runner.run(measure(options.seconds))
    publish("inside", shown(figures), figures, options)


if __name__ == "__main__":
    main()
