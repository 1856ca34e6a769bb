"""`replog produce`: lines of text or of JSON in, records out."""

import base64
import binascii
import json
import os
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from replog.cli.asking import partitions_of
from replog.cli.options import BootstrapServer, bootstrap_server, number
from replog.command.ending import PROBLEM_FOUND
from replog.command.output import note
from replog.config.properties import MAX_BATCH_BYTES
from replog.errors import ErrorCode, ReplogError, codes
from replog.topic import validate_topic_name

if TYPE_CHECKING:
    from replog.client import Delivery, Producer

CHUNK_BYTES = 1 << 16
CHUNKS_AHEAD = 4
MAX_LINE_BYTES = 16 << 20
SHOWN_FAILURES = 5
PROGRESS_INTERVAL_S = 0.2
OF_ONE_RECORD = codes("MESSAGE_TOO_LARGE INVALID_RECORD INVALID_TIMESTAMP")


def produce(
    topic: Annotated[str, typer.Option(help="Where the records go.")],
    bootstrap: BootstrapServer = None,
    file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Read this file instead of stdin.")
    ] = None,
    format_: Annotated[
        Literal["lines", "json"],
        typer.Option("--format", help="json: each line is a record as `replog consume --format json` writes it."),
    ] = "lines",
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Each line is KEY TEXT VALUE, cut at the first TEXT.")
    ] = None,
    null_marker: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A value TEXT means no value: it deletes its key when compacted.")
    ] = None,
    partition: Annotated[int | None, number(help="Send everything to this partition.")] = None,
    acks: Annotated[
        Literal["all", "1", "0"],
        typer.Option(help="Which replicas must have a record: all in sync, the leader, or none."),
    ] = "all",
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"],
        typer.Option(metavar="CODEC", help="none, gzip, snappy, lz4 or zstd."),
    ] = "none",
    batch_size: Annotated[
        int, typer.Option(min=1, max=1 << 20, metavar="BYTES", help="Size of a full batch.")
    ] = 262_144,
    max_request_size: Annotated[
        int, typer.Option(min=1, max=MAX_BATCH_BYTES, metavar="BYTES", help="The largest record, before compression.")
    ] = 1 << 20,
    linger_ms: Annotated[float, number(help="How long a batch waits for more records.")] = 5,
) -> None:
    """Send each line of stdin (or a file) as one record; counts are printed on stderr at the end.

    Records with the same key go to the same partition, as with every Kafka client. Records that were refused are
    named by line; the exit status is then 1. With `--format json` key, value, timestamp and headers are those of the
    line, and the partition is chosen as for any other record.

    Examples:

    * `echo hello | replog produce --topic greetings`
    * `replog produce --topic users --file users.txt --key-separator : --null-marker NULL`
    * `replog consume --topic users --from-beginning --format json | replog produce --topic copy --format json`"""
    import asyncio

    from replog.client import Producer
    from replog.server import logging

    validate_topic_name(topic)
    logging.configure_command()
    brokers = bootstrap_server(bootstrap)
    producer = Producer(
        brokers,
        acks=1 if acks == "1" else 0 if acks == "0" else "all",
        compression=compression,
        batch_size=batch_size,
        max_request_bytes=max_request_size,
        linger_ms=linger_ms,
    )
    if format_ == "json" and (key_separator is not None or null_marker is not None):
        raise typer.BadParameter("JSON has keys and nulls of its own", param_hint="--format json")
    if file is None and sys.stdin is None:
        raise ErrorCode.INVALID_REQUEST.error("stdin is closed, so there is nothing to send; give --file")
    if key_separator == "":
        raise ErrorCode.INVALID_CONFIG.error("--key-separator is empty; give at least one character")
    separator, null = (text.encode() if text is not None else None for text in (key_separator, null_marker))
    source = _Lines(file, format_ == "json", separator, null)

    async def run() -> bool:
        await partitions_of(brokers, topic, partition)
        if file is None and sys.stdin.isatty():
            note("each line is a record; Ctrl-D ends")
        return await _produce_lines(producer, topic, partition, source)

    if asyncio.run(run()):
        raise typer.Exit(PROBLEM_FOUND)


class Fields(NamedTuple):
    """A line, parsed as a record to send."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines of a file or of stdin, each a record."""

    file: Path | None
    is_json: bool
    key_separator: bytes | None
    null_marker: bytes | None

    def fields(self, line: bytes) -> Fields:
        """Parse a line. Raises INVALID_RECORD if it has no separator, or is no JSON."""
        if self.is_json:
            return from_json(line)
        if self.key_separator is None:
            return Fields(None, None if line == self.null_marker else line)
        key, separator, value = line.partition(self.key_separator)
        if not separator:
            raise ErrorCode.INVALID_RECORD.error(f"no key separator {self.key_separator.decode()!r}")
        return Fields(key, None if value == self.null_marker else value)

    async def lines(self) -> AsyncIterator[list[bytes]]:
        """Yields the lines of each read, without their ends. Raises OSError, RECORD_LIST_TOO_LARGE."""
        rest = b""
        async for chunk in self._chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                raise ErrorCode.RECORD_LIST_TOO_LARGE.error(
                    f"a line is longer than {MAX_LINE_BYTES} bytes; split the input"
                )
            yield [line.removesuffix(b"\r") for line in lines]
        if rest:
            yield [rest]

    async def _chunks(self) -> AsyncIterator[bytes]:
        """Yields chunks that a daemon thread reads: a read may block, and Ctrl-C must not wait for it."""
        import asyncio

        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[bytes | OSError] = asyncio.Queue(CHUNKS_AHEAD)

        def read() -> None:
            end: bytes | OSError = OSError("the input cannot be read")  # otherwise `lines` could wait for ever
            try:
                with self.file.open("rb", buffering=0) if self.file else closing(sys.stdin) as file:
                    while chunk := os.read(file.fileno(), CHUNK_BYTES):
                        asyncio.run_coroutine_threadsafe(queue.put(chunk), loop).result()
                end = b""
            except OSError as error:
                end = error
            finally:
                asyncio.run_coroutine_threadsafe(queue.put(end), loop).result()

        threading.Thread(target=read, name="reader", daemon=True).start()
        while chunk := await queue.get():
            if isinstance(chunk, OSError):
                raise chunk
            yield chunk


class _Outcomes:
    """Every record sent is counted once: acknowledged or failed."""

    def __init__(self) -> None:
        self._pending: deque[tuple[int, Delivery]] = deque()
        self.acknowledged = 0
        self.failed = 0

    def sent(self, line: int, delivery: "Delivery") -> None:
        self._pending.append((line, delivery))
        self.settle()

    def settle(self, *, flushed: bool = False) -> None:
        """Count those at the head that are done; all, if the producer has flushed."""
        while self._pending and (flushed or self._pending[0][1].done()):
            line, delivery = self._pending.popleft()
            try:
                delivery.result()
                self.acknowledged += 1
            except ReplogError as error:
                self.refused(line, error)

    def refused(self, line: int, error: ReplogError) -> None:
        self.failed += 1
        if self.failed <= SHOWN_FAILURES:
            note(f"error: line {line}: {error}")


async def _produce_lines(producer: "Producer", topic: str, partition: int | None, source: _Lines) -> bool:
    """Send everything. Return True if a record failed. Raises ReplogError if the topic or the brokers are missing."""
    outcomes, number, started, shown = _Outcomes(), 0, monotonic(), 0.0
    try:
        async with producer:
            async for lines in source.lines():
                for line in lines:
                    number += 1
                    try:
                        key, value, timestamp_ms, headers = source.fields(line)
                        delivery = await producer.send(topic, value, key, partition, timestamp_ms, headers)
                    except ReplogError as error:
                        if error.code not in OF_ONE_RECORD:
                            raise
                        error.message = error.message.replace("max_request_bytes=", "--max-request-size=")
                        outcomes.refused(number, error)
                    else:
                        outcomes.sent(number, delivery)
                if sys.stderr.isatty() and monotonic() - shown > PROGRESS_INTERVAL_S:
                    shown = monotonic()
                    print(f"\r{number} read, {outcomes.acknowledged} acknowledged ", end="", file=sys.stderr)
            await producer.flush()
    finally:
        outcomes.settle(flushed=True)
        if shown:
            print("\r", end="", file=sys.stderr)
        note(f"{outcomes.acknowledged} acknowledged, {outcomes.failed} failed, {monotonic() - started:.1f} s")
    return outcomes.failed > 0


def from_json(line: bytes) -> Fields:
    """Parse key, value, timestamp and headers; other fields are left out. Raises INVALID_RECORD."""
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict) or "value" not in fields:
            raise ValueError('no object with a "value"')
        timestamp = fields.get("timestamp")
        if timestamp is not None and type(timestamp) is not int:
            raise ValueError(f"timestamp {timestamp!r} is no number of milliseconds")
        headers = tuple((_text(name), _from_text_or_base64(value)) for name, value in fields.get("headers", ()))
        return Fields(
            _from_text_or_base64(fields.get("key")), _from_text_or_base64(fields["value"]), timestamp, headers
        )
    except (ValueError, TypeError, binascii.Error, RecursionError) as error:
        raise ErrorCode.INVALID_RECORD.error(f"not as replog consume --format json writes it: {error}") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:60]!r} is no text")
    return value


def _from_text_or_base64(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return base64.b64decode(_text(value["base64"]), validate=True)
    return _text(value).encode()
