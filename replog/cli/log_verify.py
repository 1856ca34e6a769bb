"""The work of `replog log verify`: a table of findings, or one JSON object a line, and a summary on stderr."""

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from replog.command.output import Format, note, print_rows
from replog.command.progress import progress
from replog.log_tools.checker.findings import Finding, Severity
from replog.log_tools.verify.partition import Options
from replog.log_tools.verify.paths import log_bytes, verify
from replog.log_tools.verify.segment import VerifiedTotals

SHOWN_NOTES = 3


def verify_paths(paths: Sequence[Path], *, deep: bool, compacted: bool, as_json: bool) -> bool:
    """Print all findings. Return True if one is a fault. Raises ReplogError for a path that cannot be verified."""
    totals = VerifiedTotals()
    started = time.monotonic()
    with progress(sum(map(log_bytes, paths))) as on_bytes:
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
        "file": str(finding.file),
        "position": finding.position,
        "offset": finding.offset,
        "found": finding.found.removeprefix(f"{finding.file}: "),
        "meaning": finding.kind.meaning,
    }


def _print_table(findings: Sequence[Finding]) -> None:
    """Print the findings, and the meaning of each kind once, below the table."""
    columns = {"severity": ""} | {name: name.upper() for name in ("kind", "file", "position", "offset", "found")}
    print_rows([_fields(finding) for finding in _folded(findings)], columns, Format.TABLE, _line)
    for kind in dict.fromkeys(finding.kind for finding in findings):
        print(f"{kind.name}: {kind.meaning}")


def _folded(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yields all findings, but only the first few notes of a kind in a directory, and how many more there are."""
    alike: defaultdict[object, list[Finding]] = defaultdict(list)
    for number, finding in enumerate(findings):
        is_note = finding.severity is Severity.NOTE
        alike[(finding.kind, finding.file.parent) if is_note else number].append(finding)
    for group in alike.values():
        if len(group) <= SHOWN_NOTES + 1:
            yield from group
            continue
        yield from group[:SHOWN_NOTES]
        yield group[0].kind.at(group[0].file.parent, f"and {len(group) - SHOWN_NOTES} more files in here")


def _line(fields: Mapping[str, Any]) -> str:
    where = "".join(f", {name} {fields[name]}" for name in ("position", "offset") if fields[name] is not None)
    return f"{fields['severity']} {fields['kind']} {fields['file']}{where}: {fields['found']}"
