"""Looking up offsets, deleting records, and copying records as JSON, by command."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from typer.testing import CliRunner

from replog.cli.main import app
from replog.cli.offsets import offsets_of
from replog.errors import ReplogError
from replog.topic import TopicPartition
from tests.replog.client.conftest import cluster
from tests.replog.server.broker.conftest import InProcessCluster, batch

__all__ = ["cluster"]

Run = Callable[..., Awaitable[str]]


@pytest.fixture
async def run(cluster: InProcessCluster) -> Run:
    """What a command prints. There is a broker, and topic t, with three records in the first of two partitions."""
    await cluster.start_broker(1)
    await cluster.create_topic("t", partitions=2, replication_factor=1)
    await cluster.produce(TopicPartition("t", 0), batch(b"a", b"b", b"c"))

    async def run(*words: str) -> str:
        on = ["--bootstrap-server", cluster.brokers[1].address]
        done = await asyncio.to_thread(CliRunner().invoke, app, [*words, *on])
        assert done.exit_code == 0, (done.output, done.exception)
        return done.stdout

    return run


@pytest.mark.parametrize("before", ["-1", "-2", "9" * 19, "9" * 30, "0x1", "1.0"])
def test_records_before_what_is_no_offset_are_not_deleted(before):
    """-1 is what a script computes by mistake, and once deleted everything."""
    done = CliRunner().invoke(app, ["records", "delete", "--topic", "t", "--before", before])
    assert isinstance(done.exception, ReplogError), done.output
    assert "use a number from 0 to 9223372036854775807, or end for all there is" in done.exception.message


@pytest.mark.parametrize("time", ["9" * 30, "-3"])
def test_offsets_of_what_is_no_time_are_not_looked_up(time):
    done = CliRunner().invoke(app, ["offsets", "get", "--topic", "t", "--time", time])
    assert isinstance(done.exception, ReplogError), done.output
    assert "is no time" in done.exception.message


async def offsets(run: Run, *words: str) -> list[int | None]:
    rows = json.loads(await run("offsets", "get", "--format", "json", *words))
    assert {row["topic"] for row in rows} == {"t"}
    return [row["offset"] for row in rows]


async def test_offsets_are_looked_up_by_name_and_by_time(run: Run):
    assert await offsets(run) == [3, 0]
    assert await offsets(run, "--topic", "t", "--time", "earliest") == [0, 0]
    assert await offsets(run, "--topic", "t", "--time", "1001") == [1, None], "batches begin at 1000 ms"
    assert await offsets(run, "--topic", "t", "--partition", "1", "--time", "-1") == [0]


async def test_the_oldest_records_are_deleted(run: Run, tmp_path):
    deleted = await run("records", "delete", "--topic", "t", "--partition", "0", "--before", "2", "--format", "json")
    assert json.loads(deleted) == [{"topic": "t", "partition": 0, "log_start": 2}]
    file = tmp_path / "offsets.json"
    file.write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": -1}], "version": 1}')
    await run("records", "delete", "--offset-json-file", str(file))
    assert await offsets(run, "--time", "earliest") == [3, 0]


async def test_records_are_copied_with_their_timestamps_and_shown_with_them(
    run: Run, cluster: InProcessCluster, tmp_path
):
    await cluster.create_topic("copy", partitions=1, replication_factor=1)
    reading = ("consume", "--from-beginning", "--max-messages", "3", "--topic")
    lines = tmp_path / "lines.json"
    lines.write_text(await run(*reading, "t", "--format", "json"))
    await run("produce", "--topic", "copy", "--format", "json", "--file", str(lines))
    shown = await run(*reading, "copy", "--print", "timestamp,offset,key,value")
    assert shown.splitlines() == [
        f"CreateTime:{1000 + number}\tOffset:{number}\tnull\t{value}" for number, value in enumerate("abc")
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "no offsets"),
        ("[]", "no offsets"),
        ("[" * 100_000, "no offsets"),
        ('{"partitions": [{"topic": "t", "partition": 4294967296, "offset": 1}]}', "no partition with its offset"),
        ('{"partitions": [{"topic": "t", "partition": 0, "offset": -2}]}', "no partition with its offset"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "offset"),
        ('{"partitions": [{"topic": "t", "partition": 0, "offset": "1"}]}', "no partition with its offset"),
        (json.dumps({"partitions": [{"topic": "t", "partition": 0, "offset": 1}] * 2}), "named twice"),
    ],
)
def test_what_names_no_offsets_is_refused(text: str, words: str):
    with pytest.raises(ReplogError, match=words):
        offsets_of(text, "offsets.json")
