"""The work of `replog log verify`: a table of findings, or one JSON object a line, and a summary on stderr."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cluster.cli.output import note
from replog.log.verify.findings import Finding, Severity
from replog.log.verify.partition import Options
from replog.log.verify.paths import log_bytes, verify
from replog.log.verify.segment import Totals


def verify_paths(paths: Sequence[Path], *, deep: bool, compacted: bool, as_json: bool) -> bool:
    """Print all findings; whether any is a fault. Raises ReplogError for a path that cannot be verified."""
    totals = Totals()
    started = time.monotonic()
    with _progress(sum(map(log_bytes, paths))) as on_bytes:
        findings = []
        for finding in verify(paths, Options(deep, compacted, on_bytes), totals):
            findings.append(finding)
            if as_json:
                print(json.dumps(_fields(finding), ensure_ascii=False), flush=True)
    seconds = max(time.monotonic() - started, 1e-6)
    if findings and not as_json:
        _print_table(findings)
    faults = sum(finding.severity is Severity.FAULT for finding in findings)
    note(
        f"faults: {faults}, notes: {len(findings) - faults}; verified: segments {totals.segments}, batches "
        f"{totals.batches}, records {totals.records}, bytes {totals.bytes} at {totals.bytes / seconds / 1e6:.1f} MB/s"
    )
    return faults > 0


def _fields(finding: Finding) -> dict[str, str | int | None]:
    return {
        "severity": finding.severity,
        "kind": finding.kind.name,
        "file": str(finding.file).encode(errors="backslashreplace").decode(),  # names of strays may be any bytes
        "position": finding.position,
        "offset": finding.offset,
        "found": finding.found,
        "meaning": finding.kind.meaning,
    }


def _print_table(findings: Sequence[Finding]) -> None:
    """What each kind means is told once, below the table."""
    from cluster.cli.options import Format
    from cluster.cli.output import print_rows

    columns = {
        "severity": "",
        "kind": "KIND",
        "file": "FILE",
        "position": "POSITION",
        "offset": "OFFSET",
        "found": "FOUND",
    }
    print_rows([_fields(finding) for finding in findings], columns, Format.TABLE)
    for kind in dict.fromkeys(finding.kind for finding in findings):
        print(f"{kind.name}: {kind.meaning}")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Something to call with bytes that were done; shows a bar if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        pending = 0

        def on_bytes(size: int) -> None:
            nonlocal pending
            pending += size
            if pending >= 1 << 20:
                bar.update(task, advance=pending)
                pending = 0

        yield on_bytes
