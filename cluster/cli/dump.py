"""The work of `replog log dump`: one line a row, as `name: value` pairs in the manner of Kafka's DumpLogSegments."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.cli.consume_records import text_or_base64
from replog.log.dump import BatchRow, Row, Unreadable, dump_file
from replog.log.records import Record


def dump_files(files: Sequence[Path], deep: bool, as_json: bool) -> bool:
    """Print every row; whether any of them is damage. Raises OSError, ReplogError."""
    damaged = False
    for path in files:
        if not as_json:
            print(f"Dumping {path}")
        for row in dump_file(path, records=deep):
            damaged |= isinstance(row, Unreadable) or (isinstance(row, BatchRow) and not row.crc_valid)
            fields = _fields(row)
            print(json.dumps({"file": str(path), **fields}, ensure_ascii=False) if as_json else _line(fields))
    return damaged


def _fields(row: Row) -> dict[str, Any]:
    if isinstance(row, BatchRow):
        header = row.header
        return {
            "kind": "batch",
            "position": row.position,
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "count": header.records_count,
            "size": header.size,
            "partitionLeaderEpoch": header.leader_epoch,
            "timestampType": row.timestamp_type,
            "baseTimestamp": header.base_timestamp,
            "maxTimestamp": header.max_timestamp,
            "compression": row.codec,
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "baseSequence": header.base_sequence,
            "isTransactional": row.transactional,
            "isControl": row.control,
            "crc": header.crc,
            "isValid": row.crc_valid,
        }
    if isinstance(row, Record):
        return {
            "kind": "record",
            "offset": row.offset,
            "timestamp": row.timestamp,
            "key": text_or_base64(row.key),
            "value": text_or_base64(row.value),
            "headers": [[name, text_or_base64(value)] for name, value in row.headers],
        }
    kind = "damage" if isinstance(row, Unreadable) else type(row).__name__
    return {"kind": kind, **row._asdict()}


def _line(fields: Mapping[str, Any]) -> str:
    indent = "| " if fields["kind"] == "record" else ""
    mark = "DAMAGE " if fields["kind"] == "damage" else ""
    shown = (f"{name}: {value}" for name, value in fields.items() if name != "kind" and value not in ([], None))
    return indent + mark + " ".join(shown)
