"""The rows of the table: each is one piece of work on a fresh topic, with its figures of one round."""

from dataclasses import dataclass, replace

from benchmarks.beside import Figures
from benchmarks.measure import CpuMeter, Latency
from benchmarks.peers.peer import Peer, Settings

KIB, MIB = 1 << 10, 1 << 20
RECORD_BYTES = (100, KIB, 10 * KIB)
RATES = (1000, 10_000)  # records a second
DEFAULTS, LARGE, SMALL, PROMPT = Settings(), Settings(256 * KIB), Settings(16 * KIB), Settings(linger_ms=0)
_MB_PER_SECOND = {100: 12, KIB: 80, 10 * KIB: 80}
_SMALL_BATCHES_SHARE = 3  # a third of these is sent in small batches, since they take longer
_PACED_WARM_UP_SHARE = 8  # an eighth of `seconds` is added as a warm-up


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

    @property
    def key(self) -> str:
        return f"consume {KIB} B"

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
        waits = await peer.pace(topic, KIB, records, self.per_second, warm_up, self.settings)
        latency = Latency.of(waits)
        return {
            "p50_ms": latency.p50_ms,
            "p99_ms": latency.p99_ms,
            "max_ms": latency.max_ms,
            "cpu_ms_per_record": {name: used * 1000 / records for name, used in meter.used().items()},
        }


Row = Produce | Consume | Pace

BULK = Produce(KIB, Settings(MIB))  # only replog and raw sockets have this row
PRODUCED = [Produce(size, settings) for size in RECORD_BYTES for settings in (DEFAULTS, LARGE, SMALL)]
PACED = [Pace(rate, settings) for rate in RATES for settings in (DEFAULTS, PROMPT)]
CONSUMED = Consume()


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
