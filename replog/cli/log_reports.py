"""The work of `replog log dump` and `verify`: a line, or a JSON object a line, for each row. A dump prints rows as they
are read, as `name: value` pairs, like Kafka's DumpLogSegments."""

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from replog.command.output import harmless, note, progress, text_or_base64
from replog.errors import ErrorCode
from replog.log.errors import LogStorageError
from replog.log.formats.records import LogRecord
from replog.log_tools.checker.findings import Finding, Severity
from replog.log_tools.dump import BatchRow, CheckpointRow, DumpedRow, Unreadable, dump_file, files_of
from replog.log_tools.verify.paths import log_bytes, verify
from replog.log_tools.verify.segment import Options, VerifiedTotals

SHOWN_NOTES = 3


def dump_paths(paths: Sequence[Path], deep: bool, as_json: bool) -> bool:
    """Print every row. Return True if one is damage, or a file could not be opened. Raises OSError, ReplogError."""
    missing = [str(path) for path in paths if not path.is_file() and not path.is_dir()]
    if missing:
        raise ErrorCode.INVALID_REQUEST.error(f"no such file or directory: {', '.join(missing)}")
    files = list(chain.from_iterable(map(files_of, paths)))
    if not files:
        raise ErrorCode.INVALID_REQUEST.error(f"no file of a log in {', '.join(map(str, paths))}")
    damaged = False
    for path in files:
        try:
            damaged |= _dump(path, deep, as_json)
        except (LogStorageError, PermissionError, FileNotFoundError) as error:  # a running broker may delete it
            note(f"error: {error.__cause__ or error}")
            damaged = True
    return damaged


def _dump(path: Path, deep: bool, as_json: bool) -> bool:
    if not as_json:
        print(harmless(f"Dumping {path}"))
    damaged = False
    for row in dump_file(path, records=deep):
        damaged |= isinstance(row, Unreadable) or (isinstance(row, BatchRow) and not row.crc_valid)
        fields = _dumped(row)
        print(
            json.dumps({"file": str(path), **fields}, ensure_ascii=False) if as_json else harmless(_dumped_line(fields))
        )
    return damaged


def _dumped(row: DumpedRow) -> dict[str, Any]:
    if isinstance(row, BatchRow):
        return {"kind": "batch", **row.named()}
    if isinstance(row, LogRecord):
        return {
            "kind": "record",
            "offset": row.offset,
            "timestamp": row.timestamp,
            "key": text_or_base64(row.key),
            "value": text_or_base64(row.value),
            "headers": [[name, text_or_base64(value)] for name, value in row.headers],
        }
    if isinstance(row, CheckpointRow):
        return {"kind": "checkpoint", **row.partition._asdict(), "offset": row.offset}
    kind = "damage" if isinstance(row, Unreadable) else type(row).__name__
    return {"kind": kind, **row._asdict()}


def _dumped_line(fields: Mapping[str, Any]) -> str:
    indent = "| " if fields["kind"] == "record" else ""
    mark = {"damage": "DAMAGE ", "Unused": "unused "}.get(fields["kind"], "")
    shown = (f"{name}: {value}" for name, value in fields.items() if name != "kind" and value not in ([], None))
    return indent + mark + " ".join(shown)


def verify_paths(paths: Sequence[Path], *, deep: bool, compacted: bool, as_json: bool) -> bool:
    """Print all findings, and what each kind means. Return True if one is a fault. Raises ReplogError for a path that
    cannot be verified."""
    totals = VerifiedTotals()
    started = time.monotonic()
    with progress(sum(map(log_bytes, paths))) as on_bytes:
        findings = []
        for finding in verify(paths, Options(deep, compacted, on_bytes), totals):
            findings.append(finding)
            if as_json:
                print(json.dumps(_found(finding), ensure_ascii=False), flush=True)
    seconds = max(time.monotonic() - started, 1e-6)
    if not as_json:
        for finding in _folded(findings):
            print(harmless(_found_line(_found(finding))))
        for kind in dict.fromkeys(finding.kind for finding in findings):
            print(f"{kind.name}: {kind.meaning}")
    faults = sum(finding.severity is Severity.FAULT for finding in findings)
    note(
        f"faults: {faults}, notes: {len(findings) - faults}; verified: segments {totals.segments}, batches "
        f"{totals.batches}, records {totals.records}, bytes {totals.bytes} at {totals.bytes / seconds / 1e6:.1f} MB/s"
    )
    return faults > 0


def _found(finding: Finding) -> dict[str, str | int | None]:
    return {
        "severity": finding.severity,
        "kind": finding.kind.name,
        "file": str(finding.file),
        "position": finding.position,
        "offset": finding.offset,
        "found": finding.found.removeprefix(f"{finding.file}: "),
        "meaning": finding.kind.meaning,
    }


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


def _found_line(fields: Mapping[str, Any]) -> str:
    where = "".join(f", {name} {fields[name]}" for name in ("position", "offset") if fields[name] is not None)
    return f"{fields['severity']} {fields['kind']} {fields['file']}{where}: {fields['found']}"
