"""Log directories as brokers leave them, and what verification finds in them."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from replog.log.directories.log_directory import LogDirectory
from replog.log.log import Log
from replog.log.offsets import AppendOrigin
from replog.log_tools.checker.findings import Finding, Severity
from replog.log_tools.verify.paths import verify
from replog.log_tools.verify.segment import Options, VerifiedTotals
from replog.topic import TopicPartition
from tests.replog.log.batches import append, client_batch, config, layout
from tests.replog.log.directories.moving import created
from tests.replog.log.producers.writes import batch, marker

FLIGHTS = TopicPartition("flights", 0)
SETTINGS: dict[str, Any] = {"segment_bytes": 700, "index_interval_bytes": 100}
Place = tuple[str, str, int | None, int | None]


@contextmanager
def broker(directory: Path, **overrides: Any) -> Iterator[Log]:
    """The log of `flights-0` in a log directory that is closed in order afterwards."""
    settings = config(**{**SETTINGS, **overrides})
    manager = LogDirectory(directory, cluster_id="c", node_id=1, randbytes=os.urandom)
    manager.load(lambda _: settings)
    yield manager.get(FLIGHTS) or created(manager, FLIGHTS, b"0123456789abcdef", settings)
    manager.close(7)


def write_log_directory(directory: Path) -> Path:
    """Segments [0:606 14:653 22:636 34:160], LEO 38; returns the partition's directory.

    Batches of two records, 78 bytes each, 0 to 11, of epochs 0 (up to 5) and 1; then two transactions, batch by batch,
    with compressed batches in between: pid 5 from 12 on, aborted at 24, and pid 6 from 13 on, committed at 25; batches
    of two records, 80 bytes each, of epoch 4, from 26 on."""
    with broker(directory) as log:
        for number in range(6):
            append(
                log,
                client_batch(b"a%d" % number, b"b", timestamps=[1000 * number, 1000 * number + 7]),
                epoch=number // 3,
            )
        for sequence in range(4):
            append(log, batch(0, sequence, pid=5, transactional=True, timestamp=20_000 + sequence), epoch=1)
            append(log, batch(0, sequence, pid=6, transactional=True, timestamp=20_000), epoch=1)
            append(log, client_batch(b"plain" * 30, codec=sequence + 1, timestamps=[30_000 + sequence]), epoch=1)
        for pid in (5, 6):
            data = marker(pid, commit=pid == 6)
            log.append_as_leader(data, leader_epoch=1, now_ms=0, origin=AppendOrigin.COORDINATOR)
        for number in range(6):
            append(log, client_batch(b"z%d" % number, b"y", timestamps=[40_000 + number, 3]), epoch=4)
        log.update_high_watermark(log.log_end_offset)
        assert layout(log) == [(0, 606), (14, 653), (22, 636), (34, 160)]
        assert log.log_end_offset == 38
    return directory / FLIGHTS.directory_name


def findings_in(*paths: Path, **options: Any) -> list[Finding]:
    return list(verify(paths, Options(**options), VerifiedTotals()))


def places(findings: Iterable[Finding]) -> list[Place]:
    """Kind, file name, position and offset of each."""
    return [(finding.kind.name, finding.file.name, finding.position, finding.offset) for finding in findings]


def faults(*paths: Path, **options: Any) -> list[Place]:
    return places(finding for finding in findings_in(*paths, **options) if finding.severity is Severity.FAULT)


def notes(*paths: Path, **options: Any) -> list[Place]:
    return places(finding for finding in findings_in(*paths, **options) if finding.severity is Severity.NOTE)


def file(partition: Path, base: int, suffix: str) -> Path:
    return partition / f"{base:020d}.{suffix}"
