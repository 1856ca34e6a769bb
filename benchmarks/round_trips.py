"""What a call costs on each transport: CPU of both sides, one client and one server as processes of their own.

Small: unary calls of some 200 bytes each way, alone or 16 at once. Large: produce requests of 1 MiB on a stream. Each
transport has its turn in each round, so that a machine that changes its mind does so to all.

`make bench-round-trips`; takes about a minute.
"""

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from benchmarks.measure import cpu_seconds
from benchmarks.report import benchmark_parser, publish, table
from replog.rpc import methods
from replog.rpc.allocator import tune_allocator
from replog.rpc.codec import WithRecords
from replog.rpc.grpcio.channel import GrpcTransport
from replog.rpc.grpcio.wake_ups import take_together
from replog.rpc.http2.transport import H2Transport
from replog.rpc.transport import Channel, ServerStream, Transport
from replog.rpc.v1 import log_pb2

SMALL_BYTES, LARGE_BYTES = 200, 1 << 20
IN_FLIGHT = 16
S = 60.0
KINDS = ("grpcio", "h2", "h2 uvloop")
SCALES = {"one small": 2000, "16 small": 6000, "large": 300}  # messages of a run


class Handlers:
    """Answers as large as the question, and as small."""

    async def get_metadata(self, request: log_pb2.GetMetadataRequest) -> log_pb2.GetMetadataResponse:
        return log_pb2.GetMetadataResponse(cluster_id=request.topics[0])

    async def produce(self, stream: ServerStream) -> None:
        while (request := await stream.receive()) is not None:
            answer = log_pb2.ProduceAnswer(correlation_id=request.head.correlation_id)
            await stream.send(log_pb2.ProduceResponse(answers=[answer]))

    def __getattr__(self, name: str) -> Any:
        return None


def transport_of(kind: str) -> Transport:
    if kind == "grpcio":
        take_together()
        return GrpcTransport()
    return H2Transport()


def run(kind: str, main: Callable[[], Awaitable[Any]]) -> Any:
    tune_allocator()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if kind.endswith("uvloop") else None) as runner:
        return runner.run(main())  # type: ignore[arg-type]


async def serve(kind: str) -> None:
    server = transport_of(kind).listen("127.0.0.1:0")
    server.add(methods.LOG, Handlers())
    print(await server.start(), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(0)


async def small(channel: Channel, count: int, in_flight: int) -> None:
    request = log_pb2.GetMetadataRequest(topics=["x" * SMALL_BYTES])

    async def ask() -> None:
        for _ in range(count // in_flight):
            await channel.call(methods.Log["get_metadata"], request, S)

    await asyncio.gather(*(ask() for _ in range(in_flight)))


async def large(channel: Channel, count: int) -> None:
    stream = channel.open(methods.Log["produce"])
    records = os.urandom(LARGE_BYTES)

    async def send() -> None:
        for number in range(count):
            await stream.send(WithRecords(log_pb2.ProduceRequest(correlation_id=number), (records,)))

    sending = asyncio.create_task(send())
    for _ in range(count):
        await stream.receive(S)
    await sending
    await stream.finish()


async def ask(kind: str, what: str, address: str, server: int) -> None:
    """Prints microseconds of CPU a message, of both sides, and of time."""
    channel = transport_of(kind).connect(address)

    async def go(count: int) -> None:
        if what == "large":
            await large(channel, count)
        else:
            await small(channel, count, IN_FLIGHT if what.startswith("16") else 1)

    count = SCALES[what]
    await go(count // 4)
    before, started = cpu_seconds(server) + own_cpu(), time.perf_counter()
    await go(count)
    took = time.perf_counter() - started
    print((cpu_seconds(server) + own_cpu() - before) / count * 1e6, took / count * 1e6)
    await channel.close()


def own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(kind: str, what: str) -> tuple[float, float]:
    program = [sys.executable, "-m", "benchmarks.round_trips"]
    with subprocess.Popen(
        [*program, "--serve", kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        asked = subprocess.run(
            [*program, "--ask", kind, what, address, str(server.pid)], stdout=subprocess.PIPE, text=True, check=True
        )
        server.stdin.close()
    cpu, took = map(float, asked.stdout.split())
    return cpu, took


def shown(runs: list[tuple[float, float]]) -> str:
    return " / ".join(f"{statistics.median(each):.0f}" for each in zip(*runs, strict=True))


def cpu(runs: list[tuple[float, float]]) -> float:
    return statistics.median(each for each, _ in runs)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--ask", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        run(options.serve, lambda: serve(options.serve))
        return
    if options.ask:
        kind, what, address, pid = options.ask
        run(kind, lambda: ask(kind, what, address, int(pid)))
        return
    figures: dict[str, dict[str, list[tuple[float, float]]]] = {what: {kind: [] for kind in KINDS} for what in SCALES}
    for _ in range(options.rounds):
        for what, kinds in figures.items():
            for kind, runs in kinds.items():
                runs.append(measure(kind, what))
    rows = [
        [what, *map(shown, kinds.values()), f"{cpu(kinds['h2']) / cpu(kinds['grpcio']):.2f}"]
        for what, kinds in figures.items()
    ]
    head = ["µs a message: CPU of both sides / time", *KINDS, "CPU of h2 / grpcio"]
    publish("round_trips", table(head, rows), figures, options)


if __name__ == "__main__":
    main()
