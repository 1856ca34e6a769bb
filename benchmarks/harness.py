"""All benchmarks share these: options, notes, directories, the page cache, how figures are shown and kept; latencies,
CPU and memory of processes; and separate processes that take orders."""

import argparse
import asyncio
import contextlib
import json
import logging
import math
import os
import platform
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import grpc
from rich.console import Console

from replog.common.buffers import tune_allocator

Note = Callable[[str], None]
Figures = dict[str, Any]

_CHUNK = 1 << 20
_ON_DISK = "/var/tmp"  # not a tmpfs, where holes take no memory
_FILES: list[IO[bytes]] = []  # they stay open, otherwise their pages would be free again
_ENOUGH = 0.1  # the share of memory that may be free
_ORDER_TIMEOUT_S = 300.0  # the limit for a start and for each order, even on a busy machine
_LONGEST_LINE = 16 << 20  # bytes
_READY = "ready"
_OF_A_PROCESS = 2  # a clock's low bits; the inverted id is above them (clock_getcpuclockid(3))


def benchmark_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that `publish` needs."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="a file for all figures")
    parser.add_argument("--report", type=Path, help="a Markdown file whose marked table is replaced")
    return parser


def parsed(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, Note]:
    """Return the options and a function that shows progress, and set this process up as a benchmark."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # otherwise it logs errors while Kafka starts
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # otherwise nothing is cleaned up
    options = parser.parse_args()
    tune_allocator()
    return options, partial(Console(stderr=True).print, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def homes(directory: Path | None = None) -> Iterator[Path]:
    """Make a directory for a benchmark's files, and remove it in the end."""
    with tempfile.TemporaryDirectory(prefix="replog-bench-", dir=directory, ignore_cleanup_errors=True) as made:
        yield Path(made)


def fill_page_cache(note: Note) -> None:
    """Fill free memory with clean pages of files without blocks, which the kernel drops when memory is needed. It takes
    up to a minute.

    A virtual machine that gives free memory back to its host pays for each page that it uses again: 2 to 3 s of CPU a
    GB. The first to write would pay for all: replog acknowledged 145 MB/s instead of 350. Call this before each part:
    pages of deleted files are free again, and so are pages that were not used for some minutes.
    """
    free, total = (bytes_of("/proc/meminfo", name) for name in ("MemFree", "MemTotal"))
    if free <= _ENOUGH * total:
        return
    note(f"filling the page cache with {free >> 30} GiB")
    file = tempfile.TemporaryFile(dir=_ON_DISK)  # noqa: SIM115
    _FILES.append(file)
    file.truncate(free)
    buffer = bytearray(_CHUNK)
    while file.readinto(buffer):
        pass


def environment() -> str:
    """Return a line that names the machine and the versions."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if "model name" in line), platform.machine())
    describe = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    commit = subprocess.run(describe, capture_output=True, text=True, check=False).stdout.strip()
    return (
        f"{os.cpu_count()} × {model}, Linux {platform.release()}, Python {platform.python_version()}, "
        f"grpcio {grpc.__version__}, replog {commit or 'unknown'}"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, whose columns line up on a terminal."""
    lines = [head, ["---"] * len(head), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines)


def publish(benchmark: str, shown: str, figures: Mapping[str, object], options: argparse.Namespace) -> None:
    """Print `shown`, and write the files that the options name: all figures, one name a line, and the table."""
    machine = environment()
    print(f"{shown}\n\n{machine}")
    if options.json:
        named = {"environment": machine, **figures}
        lines = (f"{json.dumps(name)}: {json.dumps(_short(each), ensure_ascii=False)}" for name, each in named.items())
        options.json.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    if options.report:
        write(options.report, benchmark, f"{shown}\n\n{machine}")


def _short(figures: object) -> object:
    """Return figures with six significant digits."""
    return json.loads(json.dumps(figures), parse_float=lambda digits: float(f"{float(digits):.6g}"))


def marks(benchmark: str) -> tuple[str, str]:
    """Return the lines between which a document has the table of `benchmarks.{benchmark}`."""
    return f"<!-- {benchmark}, written by benchmarks.{benchmark} with --report -->", f"<!-- end of {benchmark} -->"


def write(path: Path, benchmark: str, body: str) -> None:
    """Replace the text between the marks. Raises ValueError if they are missing."""
    begin, end = marks(benchmark)
    text = path.read_text()
    if begin not in text or end not in text:
        raise ValueError(f"{path} has no lines {begin} and {end}")
    section = f"{begin}\n\n{body}\n\n{end}"
    path.write_text(re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: section, text, flags=re.DOTALL))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that the process has used so far, with all threads. Raises OSError if it has ended."""
    return time.clock_gettime(~pid << 3 | _OF_A_PROCESS)  # /proc has it in steps of 10 ms, too coarse for short rows


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def reset_peak(pid: int) -> None:
    """Let `peak_bytes` count from now on."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_bytes(pid: int) -> int:
    """Return the most memory that the process had since its start, or since `reset_peak`."""
    return bytes_of(f"/proc/{pid}/status", "VmHWM")


def bytes_of(path: str, name: str) -> int:
    """Return a value that the kernel shows in KiB."""
    (kib,) = (line.split()[1] for line in Path(path).read_text().splitlines() if line.startswith(f"{name}:"))
    return int(kib) << 10


class CpuMeter:
    """Measures the CPU of named processes since it was made."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = dict(pids)
        self._started = time.perf_counter()
        self._before = {name: cpu_seconds(pid) for name, pid in self._pids.items()}

    def used(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) - self._before[name] for name, pid in self._pids.items()}

    def percent(self) -> dict[str, float]:
        """Return each process's use in percent of a core."""
        seconds = time.perf_counter() - self._started
        return {name: 100 * used / seconds for name, used in self.used().items()}


class Latency(NamedTuple):
    """Milliseconds from the moment a record was due to be sent until its acknowledgement arrived."""

    p50_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Latency":
        """Summarise waits in seconds. Raises ValueError if there are none."""
        if not seconds:
            raise ValueError("no record was acknowledged in that time")
        ordered = sorted(value * 1000 for value in seconds)
        return cls(quantile(ordered, 0.5), quantile(ordered, 0.99), ordered[-1])


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of all values do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]


def precise_loop() -> asyncio.AbstractEventLoop:
    """Return a loop on select(), since epoll rounds every wait up to a millisecond."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


async def answer_orders(**orders: Callable[..., Awaitable[Figures]]) -> None:
    """Take a `Beside`'s orders in the process itself, until stdin ends."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print(_READY, flush=True)
    while line := (await lines.readline()).decode():
        name, _, arguments = line.partition(" ")
        print(json.dumps(await orders[name](**json.loads(arguments))), flush=True)


class Beside:
    """A separate process that measures or attacks for a benchmark, whose own work would be in the figures otherwise.

    It prints a line `ready`, takes one order a line on stdin, a name and its arguments as JSON, and answers each with a
    line of figures, as JSON (`answer_orders`).
    """

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self._name = name
        self._process = process

    @classmethod
    @contextlib.asynccontextmanager
    async def program(cls, name: str, command: Sequence[str]) -> AsyncIterator[Self]:
        """Run a program that takes orders, and wait until it is ready. Raises OSError if it ends by itself."""
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_LONGEST_LINE
        )
        beside = cls(name, process)
        try:
            await beside._line()
            yield beside
            if process.returncode is not None:
                raise OSError(f"{name} ended with status {process.returncode}")
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def order(self, name: str, **arguments: object) -> Figures:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name} {json.dumps(arguments)}\n".encode())
        figures: Figures = json.loads(await self._line())
        return figures

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        async with asyncio.timeout(_ORDER_TIMEOUT_S):
            line = await self._process.stdout.readline()
            if not line:
                raise OSError(f"{self._name} ended with status {await self._process.wait()}")
        return line
