"""`replog consume`: which replica the records come from, and which of them are printed."""

import asyncio
from collections import Counter

import pytest
from typer.testing import CliRunner

from replog.cli.main import app
from tests.replog.client.consuming.test_read_committed import with_transactions
from tests.replog.server.broker.clients.test_follower_reads import RACKS, TP, produce, racks, served
from tests.replog.server.broker.conftest import cluster

__all__ = ["cluster", "served"]


async def printed(address: str, *options: str) -> list[bytes]:
    command = ["consume", "--bootstrap-server", address, "--topic", "t", "--from-beginning", *options]
    done = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert done.exit_code == 0, done.output
    return done.stdout_bytes.splitlines()


async def test_records_come_from_the_replica_in_the_rack(cluster, served):
    """FE-20."""
    follower = await racks(cluster)
    size = await produce(cluster, 0, 3)
    options = ["--max-messages", "3", "--timeout-ms", "5000", "--client-rack", RACKS[follower]]
    assert await printed(cluster.brokers[cluster.leader(TP)].address, *options) == [b"0", b"1", b"2"]
    assert +served == Counter({follower: size})


@pytest.mark.parametrize(
    ("options", "values"),
    [
        (["--isolation-level", "read_committed"], [b"plain", b"committed", b"of the next transaction"]),
        ([], [b"aborted", b"aborted too", b"plain", b"committed", b"of the next transaction", b"undecided", b"after"]),
    ],
)
async def test_aborted_and_open_transactions_are_not_printed_when_reading_committed(cluster, options, values):
    assert await printed(await with_transactions(cluster), "--timeout-ms", "400", *options) == values
