"""A broker one of whose disks fails stops, whoever met the error (§9.2), in virtual time."""

import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.simulation.network import SimulatedChannel
from replog.errors import ErrorCode, ReplogError
from replog.log.files import SNAPSHOT_SUFFIX, segment_file_name
from replog.rpc import methods
from replog.rpc.v1 import log_pb2
from tests.cluster.broker.virtual_pair import VirtualPair

Ask = Callable[[SimulatedChannel], Awaitable[Any]]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[VirtualPair]:
    pair = VirtualPair(tmp_path)
    pair.create_topic(segment_bytes="1024")
    pair.produce(*[900] * 4)
    yield pair
    pair.dispose()


def delete_records(channel: SimulatedChannel) -> Awaitable[Any]:
    asked = [log_pb2.DeleteRecordsPartition(topic="t", partition=0, offset=2)]
    return channel.call(methods.Log["delete_records"], log_pb2.DeleteRecordsRequest(partitions=asked), 5)


def list_offsets(channel: SimulatedChannel) -> Awaitable[Any]:
    asked = [log_pb2.ListOffsetsPartition(topic="t", partition=0, timestamp=1)]
    return channel.call(methods.Log["list_offsets"], log_pb2.ListOffsetsRequest(partitions=asked), 5)


async def fetch(channel: SimulatedChannel) -> Any:
    asked = [log_pb2.FetchPartition(topic="t", partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    request = log_pb2.FetchRequest(max_bytes=1 << 20, min_bytes=1, max_wait_ms=100, partitions=asked)
    return (await channel.call(methods.Log["fetch_once"], request, 5)).head


def lose_the_first_segment(pair: VirtualPair) -> None:
    first = pair.log(1)._segments.first
    first.close()  # it is opened again when it is read
    first.path.unlink()


def refuse_epoch_files(pair: VirtualPair) -> None:
    (pair.log(1).directory / "leader-epoch-checkpoint.tmp").mkdir()


@pytest.mark.parametrize(
    ("break_disk", "ask"),
    [(refuse_epoch_files, delete_records), (lose_the_first_segment, list_offsets), (lose_the_first_segment, fetch)],
)
def test_whoever_asks_for_what_the_disk_fails_to_do(
    pair: VirtualPair, break_disk: Callable[[VirtualPair], None], ask: Ask
) -> None:
    """Else it would lead on and serve nothing, for as long as nobody produces."""

    async def asked() -> Any:
        channel = pair.network.transport(pair.client).connect("broker-1:9092")
        answer = await ask(channel)
        await channel.close()
        return answer

    break_disk(pair)
    answer = pair.run(asked())
    assert ErrorCode(answer.partitions[0].error_code) is ErrorCode.KAFKA_STORAGE_ERROR
    assert pair.brokers[1].failed
    with pytest.raises(ReplogError, match="KAFKA_STORAGE_ERROR"):
        pair.run(pair.brokers[1].wait(), pair.processes[1])


def test_a_follower_that_copies_from_the_beginning(pair: VirtualPair) -> None:
    pair.kill(2)
    shutil.rmtree(pair.directory / "broker-2")
    lose_the_first_segment(pair)
    pair.start(2)
    assert pair.loop.run_until(lambda: pair.brokers[1].failed, pair.loop.time() + 5)


def test_a_stop_that_the_disk_fails_raises_it(pair: VirtualPair) -> None:
    """And that is all: nobody else is told of it."""
    (pair.log(1).directory / segment_file_name(4, SNAPSHOT_SUFFIX)).mkdir()
    waiting = pair.loop.spawn(pair.processes[1], pair.brokers[1].wait())
    with pytest.raises(ReplogError, match=SNAPSHOT_SUFFIX):
        pair.run(pair.brokers[1].stop(), pair.processes[1])
    pair.loop.run_until(pair.loop.time() + 1)
    assert not waiting.done()
