"""The rows of the table: each is one piece of work on a fresh topic, with its figures of one round; and the table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from statistics import median

from benchmarks.harness import CpuMeter, Figures, Latency, table
from benchmarks.peers.peer import CLIENT, ClusterPeer, Settings
from benchmarks.peers.raw import RawPeer

KIB, MIB = 1 << 10, 1 << 20
RECORD_BYTES = {100: "100 B", KIB: "1 KiB", 10 * KIB: "10 KiB"}
RATES = (1000, 10_000)  # records a second
DEFAULTS, LARGE, SMALL, PROMPT = Settings(), Settings(256 * KIB), Settings(16 * KIB), Settings(linger_ms=0)
_MB_PER_SECOND = {100: 12, KIB: 80, 10 * KIB: 80}
_SMALL_BATCHES_SHARE = 3  # a third of these is sent in small batches, since they take longer
_PACED_WARM_UP_SHARE = 8  # an eighth of `seconds` is added as a warm-up

Rounds = dict[str, list[dict[str, Figures]]]
"""Each system's rounds, which have the figures of each row under the row's key."""

Pick = Callable[[Figures], float]
Peer = ClusterPeer | RawPeer
Kind = type[ClusterPeer] | type[RawPeer]


@dataclass(frozen=True)
class Produce:
    """Produces as fast as records are acknowledged. All systems send the same number of records."""

    record_bytes: int
    settings: Settings

    @property
    def key(self) -> str:
        return f"produce {self.record_bytes} B{_told(self.settings)}"

    async def run(self, peer: Peer, topic: str, seconds: float) -> Figures:
        """Produce for about `seconds`, and return the figures."""
        share = _SMALL_BATCHES_SHARE if self.settings.batch_bytes == SMALL.batch_bytes else 1
        records = round(_MB_PER_SECOND[self.record_bytes] * 1e6 * seconds / share / self.record_bytes)
        meter = CpuMeter(peer.pids)
        took = await peer.produce(topic, self.record_bytes, records, self.settings)
        return _throughput(records * self.record_bytes, took, meter)


@dataclass(frozen=True)
class Consume:
    """Consumes records that were written before, and are in memory."""

    settings: Settings = DEFAULTS
    key = f"consume {KIB} B"

    async def run(self, peer: Peer, topic: str, seconds: float) -> Figures:
        records = round(_MB_PER_SECOND[KIB] * 1e6 * seconds / KIB)
        await peer.produce(topic, KIB, records, self.settings)
        meter = CpuMeter(peer.pids)
        took = await peer.consume(topic, KIB, records)
        return _throughput(records * KIB, took, meter)


@dataclass(frozen=True)
class Pace:
    """Produces records of 1 KiB at a fixed rate, each timed from when it was due."""

    per_second: int
    settings: Settings

    @property
    def key(self) -> str:
        return f"pace {self.per_second}/s{_told(self.settings)}"

    async def run(self, peer: Peer, topic: str, seconds: float) -> Figures:
        warm_up = round(self.per_second * seconds / _PACED_WARM_UP_SHARE)
        records = warm_up + round(self.per_second * seconds)
        meter = CpuMeter(peer.pids)
        waits = await peer.pace(topic, KIB, records, self.per_second, self.settings)
        cpu_ms = {name: used * 1000 / records for name, used in meter.used().items()}
        return {**Latency.of(waits[warm_up:])._asdict(), "cpu_ms_per_record": cpu_ms}


Row = Produce | Consume | Pace

BULK = Produce(KIB, Settings(MIB))  # only replog and raw sockets have this row
PRODUCED = [Produce(size, settings) for size in RECORD_BYTES for settings in (LARGE, SMALL)]
PACED = [Pace(rate, settings) for rate in RATES for settings in (DEFAULTS, PROMPT)]
CONSUMED = Consume()
MEASURED: tuple[Row, ...] = (*PRODUCED, *PACED, CONSUMED)
PACED_BY_DEFAULTS: tuple[Row, ...] = tuple(Pace(rate, DEFAULTS) for rate in RATES)


def resolved(row: Row, defaults: Settings) -> Row:
    """Fill in a system's defaults for settings that the row leaves open, so that rows with equal work are equal."""
    settings = Settings(
        *(default if wanted is None else wanted for wanted, default in zip(row.settings, defaults, strict=True))
    )
    return replace(row, settings=settings)


def _told(settings: Settings) -> str:
    batch, linger = settings
    return ("" if batch is None else f", batches of {batch} B") + ("" if linger is None else f", linger {linger} ms")


def _throughput(size: int, seconds: float, meter: CpuMeter) -> Figures:
    """Return the figures of `size` bytes of acknowledged records, without frames."""
    cpu_s_per_gb = {name: used / (size / 1e9) for name, used in meter.used().items()}
    return {"mb_per_second": size / 1e6 / seconds, "cpu_s_per_gb": cpu_s_per_gb}


rate: Pick = itemgetter("mb_per_second")
p50: Pick = itemgetter("p50_ms")
p99: Pick = itemgetter("p99_ms")


def cpu_per_record(figures: Figures) -> float:
    """Return the milliseconds of all processes."""
    return float(sum(figures["cpu_ms_per_record"].values()))


def cpu_per_gb(figures: Figures) -> float:
    """Return the seconds of all processes."""
    return float(sum(figures["cpu_s_per_gb"].values()))


def _client_per_gb(figures: Figures) -> float:
    return float(figures["cpu_s_per_gb"][CLIENT])


_BATCHES = {LARGE: "256 KiB batches", SMALL: "16 KiB batches"}  # replog's default and Kafka's
_LINGERS = {DEFAULTS: "defaults", PROMPT: "linger 0"}
LINES: list[tuple[str, Row, Pick]] = [
    *((f"{RECORD_BYTES[row.record_bytes]}, {_BATCHES[row.settings]}, MB/s", row, rate) for row in PRODUCED),
    (
        "CPU of brokers at 1 KiB, 256 KiB batches, s/GB",
        Produce(KIB, LARGE),
        lambda figures: cpu_per_gb(figures) - _client_per_gb(figures),
    ),
    ("… of the client, s/GB", Produce(KIB, LARGE), _client_per_gb),
    *(
        (f"{name} at {row.per_second:,} records/s, {_LINGERS[row.settings]}, ms", row, pick)
        for row in PACED
        for name, pick in (("p50", p50), ("p99", p99))
    ),
    ("CPU of all at 1,000 records/s, defaults, ms/record", Pace(RATES[0], DEFAULTS), cpu_per_record),
    ("consume, MB/s", CONSUMED, rate),
    ("requests of 1 MiB, MB/s", BULK, rate),
    ("CPU of all then, s/GB", BULK, cpu_per_gb),
]


def values(rounds: Sequence[Mapping[str, Figures]], row: Row, pick: Pick) -> list[float]:
    """Return a figure of each round that has the row."""
    return [pick(figures[row.key]) for figures in rounds if row.key in figures]


def cell(of_rounds: Sequence[float]) -> str:
    """Show the median with two or three significant digits, and the lowest and the highest."""
    if not of_rounds:
        return "–"
    lowest, middle, highest = (
        f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
        for value in (min(of_rounds), median(of_rounds), max(of_rounds))
    )
    return middle if lowest == highest else f"{middle} ({lowest}–{highest})"


def shown(report: Rounds) -> str:
    rows = [[label, *(cell(values(rounds, row, pick)) for rounds in report.values())] for label, row, pick in LINES]
    return table(["", *report], rows)
