"""`replog consume`: which replica the records come from, and which of them are printed."""

import asyncio
from collections import Counter

import pytest
from typer.testing import CliRunner

from replog.cli.consume import PRINTED, parse_printed, printed, to_json
from replog.cli.main import app
from replog.cli.produce import from_json
from replog.client import Record
from replog.errors import ErrorCode, ReplogError
from tests.replog.client.consuming.test_read_committed import with_transactions
from tests.replog.server.broker.clients.test_follower_reads import RACKS, TP, produce, racks, served
from tests.replog.server.broker.conftest import cluster

__all__ = ["cluster", "served"]


async def consumed(address: str, *options: str) -> list[bytes]:
    command = ["consume", "--bootstrap-server", address, "--topic", "t", "--from-beginning", *options]
    done = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert done.exit_code == 0, done.output
    return done.stdout_bytes.splitlines()


async def test_records_come_from_the_replica_in_the_rack(cluster, served):
    """FE-20."""
    follower = await racks(cluster)
    size = await produce(cluster, 0, 3)
    options = ["--max-messages", "3", "--timeout-ms", "5000", "--client-rack", RACKS[follower]]
    assert await consumed(cluster.brokers[cluster.leader(TP)].address, *options) == [b"0", b"1", b"2"]
    assert +served == Counter({follower: size})


@pytest.mark.parametrize(
    ("options", "values"),
    [
        (["--isolation-level", "read_committed"], [b"plain", b"committed", b"of the next transaction"]),
        ([], [b"aborted", b"aborted too", b"plain", b"committed", b"of the next transaction", b"undecided", b"after"]),
    ],
)
async def test_aborted_and_open_transactions_are_not_printed_when_reading_committed(cluster, options, values):
    address = await with_transactions(cluster)
    assert await consumed(address, "--max-messages", str(len(values)), *options) == values
    until_nothing_comes = await consumed(address, "--timeout-ms", "400", *options)
    assert until_nothing_comes == values[: len(until_nothing_comes)], "on a busy machine it may end early"


HEADERS: list[tuple[str, bytes | None]] = [("h", b"1"), ("h", None), ("raw", b"\xff")]
FULL = Record("t", 2, 7, 1700, 0, b"k\xff", "wört".encode(), HEADERS, 3)
EMPTY = Record("t", 0, 0, 5, 1, None, None, [], 0)


@pytest.mark.parametrize("record", [FULL, EMPTY])
def test_what_is_written_as_json_is_sent_as_it_was(record: Record):
    fields = from_json(to_json(record))
    assert fields == (record.key, record.value, record.timestamp, tuple(record.headers))


def test_a_line_may_leave_out_everything_but_the_value():
    assert from_json(b'{"value": "v"}') == (None, b"v", None, ())


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"plain",
        b"[]",
        b"{}",
        b"\xff",
        b'{"value": 5}',
        b'{"value": {"base64": "not base64!"}}',
        b'{"value": {"base64": 5}}',
        b'{"value": "v", "timestamp": "now"}',
        b'{"value": "v", "timestamp": true}',
        b'{"value": "v", "headers": 5}',
        b'{"value": "v", "headers": [["name"]]}',
        b'{"value": "v", "headers": [[5, "x"]]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_record_is_refused(line: bytes):
    with pytest.raises(ReplogError, match="not as replog consume --format json writes it") as refused:
        from_json(line)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_fields_are_printed_as_kafkas_console_consumer_does():
    everything = b"CreateTime:1700\tPartition:2\tOffset:7\th:1,h:null,raw:\xff\tk\xff\tw\xc3\xb6rt\n"
    assert printed(FULL, PRINTED) == everything
    assert printed(FULL, parse_printed("value, key")) == b"k\xff\tw\xc3\xb6rt\n"
    assert printed(EMPTY, ("timestamp", "headers", "value")) == b"LogAppendTime:5\tNO_HEADERS\tnull\n"
    with pytest.raises(ReplogError, match="--print 'colour' is none of timestamp, partition"):
        parse_printed("key,colour")
