"""Idempotent producers and transactions over real gRPC: duplicates, committed reads, fail-over, expiry."""

from replog.config.topic import TopicConfig
from replog.errors import ErrorCode
from replog.log.log import Log
from replog.rpc import methods
from replog.rpc.v1 import log_pb2
from tests.replog.log.batches import client_batch
from tests.replog.log.producers.writes import batch, end, produce, transact
from tests.replog.server.broker.conftest import CALL_S, TP, eventually

SIZE = 69  # of a batch of one record; a marker has 78 bytes


def fill(log: Log) -> None:
    """Producer 1 from 0, aborted at 3; producer 2 from 1, committed at 4; plain at 2; producer 3 from 5, open."""
    transact(log, 1, 0)
    transact(log, 2, 0)
    produce(log, client_batch(b"x"))
    end(log, 1, commit=False)
    end(log, 2, commit=True)
    transact(log, 3, 0)


async def test_a_directory_with_aborted_transactions_is_served_to_committed_readers(cluster):
    """LG-9, PS-5, FE-22: written while the broker is down; it comes from disk."""
    await cluster.begin(1)
    await cluster.stop_broker(1)
    log = Log.open(cluster.directory / "broker-1" / "t-0", TopicConfig(), clean=True)
    fill(log)
    log.close()
    await cluster.start_broker(1)
    await cluster.led(TP)
    await eventually(lambda: cluster.log(1, TP).high_watermark == 6)
    result, data = await cluster.fetch(TP, 0, isolation_level=log_pb2.READ_COMMITTED)
    assert (result.error_code, result.high_watermark, result.last_stable_offset) == (0, 6, 5)
    assert [(aborted.producer_id, aborted.first_offset) for aborted in result.aborted_transactions] == [(1, 0)]
    assert len(data) == 3 * SIZE + 2 * 78
    result, data = await cluster.fetch(TP, 0, isolation_level=log_pb2.READ_UNCOMMITTED)
    assert (result.last_stable_offset, list(result.aborted_transactions)) == (5, [])
    assert len(data) == 4 * SIZE + 2 * 78
    for isolation, latest in ((log_pb2.READ_COMMITTED, 5), (log_pb2.READ_UNCOMMITTED, 6)):
        partition = log_pb2.ListOffsetsPartition(topic="t", partition=0, timestamp=-1)
        request = log_pb2.ListOffsetsRequest(isolation_level=isolation, partitions=[partition])
        response = await cluster.to_leader(TP).call(methods.Log["list_offsets"], request, CALL_S)
        assert response.partitions[0].offset == latest


async def test_transactional_batches_are_refused(cluster):
    """There is no coordinator that could end their transaction."""
    await cluster.begin(1)
    await cluster.allocate_producer_ids()
    error, _, message = await cluster.produce(TP, batch(0, 0, transactional=True))
    assert error is ErrorCode.INVALID_TXN_STATE
    assert "without a transactional id" in message
    assert cluster.log(1, TP).log_end_offset == 0


async def test_idle_producers_are_forgotten(cluster):
    """PS-11: by the broker's clock, however old their records are."""
    soon = {"producer_id_expiration_check_interval_ms": 50, "producer_id_expiration_ms": 600}
    await cluster.begin(1, brokers=soon)
    await cluster.allocate_producer_ids()
    await cluster.produce(TP, batch(0, 0, pid=1, timestamp=1))
    await cluster.produce(TP, batch(0, 0, pid=2, timestamp=1))
    log = cluster.log(1, TP)
    assert [entry.producer_id for entry in log.producers.snapshot_entries()] == [1, 2]
    await eventually(lambda: log.producers.empty)
