"""The work of `replog consume`."""

import base64
import json
import sys
from typing import Any, Literal, NamedTuple

from cluster.cli.asking import partitions_of
from cluster.cli.consume_command import RecordFormat
from cluster.cli.output import note
from replog.client import Consumer, Record
from replog.topic import TopicPartition

IDLE_POLL_S = 3600.0


class Start(NamedTuple):
    """What to read, from where and how."""

    topic: str
    partition: int | None  # None: all of them
    offset: int | None
    from_beginning: bool
    isolation_level: Literal["read_uncommitted", "read_committed"]
    client_rack: str


async def consume_records(
    bootstrap: str, start: Start, output: RecordFormat, max_messages: int | None, timeout_ms: int | None
) -> None:
    """Print until the limit, until nothing came for `timeout_ms`, or until cancelled.

    Raises UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE (`--offset` alone: else the reader is reset), ReplogError.
    """
    reset: Literal["error", "earliest", "latest"] = "earliest" if start.from_beginning else "latest"
    if start.offset is not None:
        reset = "error"
    printed = 0
    partitions = [
        TopicPartition(start.topic, number) for number in await partitions_of(bootstrap, start.topic, start.partition)
    ]
    async with Consumer(
        bootstrap,
        isolation_level=start.isolation_level,
        auto_offset_reset=reset,
        client_rack=start.client_rack,
    ) as consumer:
        consumer.assign(partitions)
        if start.offset is not None:
            consumer.seek(partitions[0], start.offset)
        try:
            while max_messages is None or printed < max_messages:
                timeout_s = timeout_ms / 1000 if timeout_ms is not None else IDLE_POLL_S
                records = await consumer.fetch(timeout_s)
                if not records and timeout_ms is not None:
                    break
                if max_messages is not None:
                    records = records[: max_messages - printed]
                sys.stdout.buffer.write(b"".join(_line(record, output) for record in records))
                sys.stdout.buffer.flush()
                printed += len(records)
        finally:
            note(f"{printed} records")


def _line(record: Record, output: RecordFormat) -> bytes:
    if output is RecordFormat.LINES:
        return (record.value or b"") + b"\n"
    if output is RecordFormat.KEY_VALUE:
        return (record.key or b"") + b":" + (record.value or b"") + b"\n"
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "leader_epoch": record.leader_epoch,
        "key": text_or_base64(record.key),
        "value": text_or_base64(record.value),
        "headers": [[name, text_or_base64(value)] for name, value in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def text_or_base64(value: bytes | None) -> Any:
    """A string where the bytes are UTF-8, else {"base64": …}, so that nothing is lost."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
