"""The metrics of every process."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import structlog
from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from replog.config.processes import BrokerConfig, ControllerConfig
from replog.rpc.peer import Peer
from replog.rpc.tasks import for_good
from replog.rpc.tls import Tls
from replog.server.logging import LogLines
from replog.server.metrics.endpoint import Families, MetricsEndpoint
from replog.server.metrics.families import Times, gauges, labelled, shown
from replog.server.slow_steps import SlowSteps

log = structlog.get_logger()

DISKS = Path("/proc/self/io")
LAG_EVERY_S = 0.1
ANSWER_S = 1.0  # how long all disks together may take


@asynccontextmanager
async def shown_at(
    config: BrokerConfig | ControllerConfig,
    families: Families,
    steps: SlowSteps,
    tls: Tls | None,
    other_tls: Tls | None = None,
) -> AsyncIterator[None]:
    """Show `families` and the metrics of the process at `metrics.listener`. Raises INVALID_CONFIG.

    Enter it first: then a long start can be watched, and a process that cannot listen leaves nothing behind.
    `other_tls` has the certificate that the process shows elsewhere."""
    if not config.metrics_listener:
        yield
        return
    lag = Times()

    async def all_families(asks: Peer) -> list[Metric]:
        shown_ones = [each for each in (tls, other_tls) if each is not None]
        return [*await families(asks), *process_metrics(steps, lag), certificate_metrics(shown_ones)]

    endpoint = MetricsEndpoint(config.metrics_listener, all_families, tls, allow_plaintext=config.allow_plaintext)
    log.info("metrics", address=await endpoint.start())
    measuring = for_good(measure(lag), "measure the loop's lag")
    try:
        yield
    finally:
        measuring.cancel()
        await endpoint.stop()


def process_metrics(steps: SlowSteps, lag: Times) -> Iterable[Metric]:
    """Yields CPU, memory and descriptors under Prometheus's own names, bytes of disks, and the event loop, which stands
    for all of Kafka's threads."""
    idle = steps.idle_share()
    yield from ProcessCollector(registry=None).collect()
    yield from _disks()
    idle_text = "Of the last one to two minutes, in which the event loop had nothing to do, 0 to 1"
    longest_text = "The longest step of the event loop in the last one to two minutes"
    yield from gauges(
        "",
        ("kafka_network_socketserver_networkprocessoravgidle_percent", idle_text, idle),
        ("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", idle_text, idle),
        ("replog_event_loop_longest_step_seconds", longest_text, steps.longest_s()),
    )
    yield shown(
        "replog_event_loop_lag_seconds", "How late the event loop did what was due", {(): lag}, monotonic(), unit="s"
    )
    yield CounterMetricFamily(
        "replog_log_lines_lost", "Lines of the log that nobody read in time, or that found no room", value=LogLines.lost
    )
    text = "Steps of the event loop of 0.05 s or more, by name"
    yield labelled(CounterMetricFamily, "replog_event_loop_slow_steps", text, "step", steps.slow)


def _disks() -> Iterable[Metric]:
    """Yields bytes read and written; nothing if the kernel does not count them."""
    with contextlib.suppress(OSError):
        moved = dict(line.split(": ") for line in DISKS.read_text().splitlines())
        for name, text in (("read", "Bytes that were fetched from disks"), ("write", "Bytes that were sent to disks")):
            value = int(moved[f"{name}_bytes"])
            yield GaugeMetricFamily(f"kafka_server_kafkaserver_linux_disk_{name}_bytes", text, value=value)


async def measure(lag: Times) -> None:
    """Measure, until cancelled, how late the event loop is: so long does a request wait before it is looked at."""
    while True:
        due_s = monotonic() + LAG_EVERY_S
        await asyncio.sleep(LAG_EVERY_S)
        now_s = monotonic()
        lag.add((now_s - due_s) * 1000, now_s)


def certificate_metrics(connections: Iterable[Tls]) -> Metric:
    """Return the ends of certificates in use, which may differ from the files. A keystore ends with its first: then
    others refuse it. A truststore ends with its last: then this process refuses everybody."""
    ends: dict[Path | None, float] = {}
    for tls in connections:
        from cryptography import x509  # a process without TLS need not load it

        if tls.material.ends is not None:
            ends[tls.files.keystore] = tls.material.ends.timestamp()
        roots = x509.load_pem_x509_certificates(tls.material.roots)
        ends[tls.files.truststore] = max(root.not_valid_after_utc.timestamp() for root in roots)
    name, text = "replog_certificate_not_after_timestamp_seconds", "When the certificates of a file end"
    return labelled(GaugeMetricFamily, name, text, "file", ends)


class Room:
    """The room on the file systems of directories.

    It asks in one thread at a time, otherwise a disk that hangs would take thread after thread."""

    def __init__(self) -> None:
        self._asking: asyncio.Task[dict[Path, object]] | None = None

    async def families(self, directories: Sequence[Path]) -> list[Metric]:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(asyncio.to_thread(_usages, directories), name="room on disks")
        await asyncio.wait({self._asking}, timeout=ANSWER_S)
        usages = self._asking.result() if self._asking.done() else {}
        free, size = ({path: getattr(each, what) for path, each in usages.items()} for what in ("free", "total"))
        text = "Room for what the process keeps there"
        return [
            labelled(GaugeMetricFamily, "replog_directory_free_bytes", text, "directory", free),
            labelled(GaugeMetricFamily, "replog_directory_size_bytes", "Of the file system there", "directory", size),
        ]


def _usages(directories: Sequence[Path]) -> dict[Path, object]:
    """Return the room on disks, without those that fail. It waits for them."""
    usages: dict[Path, object] = {}
    for directory in directories:
        with contextlib.suppress(OSError):
            usages[directory] = shutil.disk_usage(directory)
    return usages
