"""The work of `replog log dump`: a table on a terminal that is wide enough; else `name: value` pairs, like Kafka's
DumpLogSegments; or one JSON object a line. Rows are printed as they are read."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

from replog.command.output import Format, harmless, note, print_rows, text_or_base64
from replog.errors import ErrorCode
from replog.log.errors import LogStorageError
from replog.log.formats.records import LogRecord
from replog.log_tools.dump import BatchRow, CheckpointRow, DumpedRow, Unreadable, dump_file, files_of

ROWS_OF_A_TABLE = 500


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
    rows = dump_file(path, records=deep)
    if not as_json:
        print(harmless(f"Dumping {path}"))
        if sys.stdout.isatty():
            return _print_tables(rows)
    damaged = False
    for row in rows:
        damaged |= _is_damage(row)
        fields = _fields(row)
        print(json.dumps({"file": str(path), **fields}, ensure_ascii=False) if as_json else harmless(_line(fields)))
    return damaged


def _is_damage(row: DumpedRow) -> bool:
    return isinstance(row, Unreadable) or (isinstance(row, BatchRow) and not row.crc_valid)


def _print_tables(rows: Iterator[DumpedRow]) -> bool:
    """Print a table for each run of rows of a kind, at most `ROWS_OF_A_TABLE` in each. Return True if one is damage."""
    damaged = False
    for kind, run in groupby(rows, key=type):
        while group := list(islice(run, ROWS_OF_A_TABLE)):
            damaged |= any(map(_is_damage, group))
            shown = [_fields(row) for row in group]
            columns = {name: name for fields in shown for name in fields if name != "kind"}
            if kind is Unreadable:
                columns = {"kind": "", **columns}
            print_rows([{**dict.fromkeys(columns), **fields} for fields in shown], columns, Format.TABLE, _line)
    return damaged


def _fields(row: DumpedRow) -> dict[str, Any]:
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


def _line(fields: Mapping[str, Any]) -> str:
    indent = "| " if fields["kind"] == "record" else ""
    mark = {"damage": "DAMAGE ", "Unused": "unused "}.get(fields["kind"], "")
    shown = (f"{name}: {value}" for name, value in fields.items() if name != "kind" and value not in ([], None))
    return indent + mark + " ".join(shown)
