"""`replog consume --isolation-level`, on a log with transactions that a coordinator has ended."""

import asyncio

import pytest
from typer.testing import CliRunner

from cluster.cli.main import app
from tests.cluster.broker.conftest import InProcessCluster, cluster
from tests.replog.client.test_read_committed import with_transactions

__all__ = ["cluster"]


@pytest.mark.parametrize(
    ("options", "values"),
    [
        (["--isolation-level", "read_committed"], [b"plain", b"committed", b"of the next transaction"]),
        ([], [b"aborted", b"aborted too", b"plain", b"committed", b"of the next transaction", b"undecided", b"after"]),
    ],
)
async def test_aborted_and_open_transactions_are_not_printed_when_reading_committed(
    cluster: InProcessCluster, options: list[str], values: list[bytes]
) -> None:
    address = await with_transactions(cluster)
    command = ["consume", "--bootstrap-server", address, "--topic", "t", "--from-beginning", "--timeout-ms", "400"]
    done = await asyncio.to_thread(CliRunner().invoke, app, [*command, *options])
    assert done.exit_code == 0, done.output
    assert done.stdout_bytes.splitlines() == values
