"""Ids of Kafka's producers, and what a broker knows of those who wrote."""

from replog.common.acl import Operation
from replog.errors import ErrorCode
from replog.kafka.messages import DescribeProducersRequest, DescribeProducersRequestTopic, InitProducerIdRequest
from replog.server.broker.kafka.apis import describe_producers
from tests.replog.log.batches import client_batch
from tests.replog.server.broker.clients.test_permission import STANDARD, Guarded
from tests.replog.server.broker.kafka.client import connected
from tests.replog.server.broker.kafka.requests import produce, rows_of

BEFORE = InitProducerIdRequest(producer_id=-1, producer_epoch=-1)


async def test_who_asks_for_an_id_gets_a_new_one_and_no_transactions(cluster):
    broker = await cluster.begin(1)
    refusals = {
        BEFORE._replace(transactional_id="t"): ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        BEFORE._replace(producer_id=5): ErrorCode.INVALID_REQUEST,
    }
    async with connected(broker.address) as client:
        ids = [(await client.ask(BEFORE, version)).producer_id for version in range(6)]
        ids.append((await client.ask(InitProducerIdRequest(None, 0, ids[0], 3), 4)).producer_id)
        assert ids == list(range(ids[0], ids[0] + 7))
        for request, error in refusals.items():
            answer = await client.ask(request, 4)
            assert (ErrorCode(answer.error_code), answer.producer_id) == (error, -1)


async def test_a_producer_that_raises_its_epoch_begins_anew_and_a_broker_tells_of_it(cluster):
    """KIP-360: an idempotent producer raises it by itself."""
    broker = await cluster.begin(1)
    async with connected(broker.address) as client:
        producer = (await client.ask(BEFORE, 4)).producer_id
        cases = [
            # epoch, sequence, error
            (0, 0, ErrorCode.NONE),
            (0, 3, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
            (1, 2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
            (1, 0, ErrorCode.NONE),
            (0, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
            (1, 1, ErrorCode.NONE),
        ]
        for epoch, sequence, error in cases:
            records = client_batch(b"x", producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
            row = rows_of(await client.ask(produce(records), 9))["t", 0]
            assert ErrorCode(row.error_code) is error, (epoch, sequence)
        topics = [DescribeProducersRequestTopic("t", [0, 1])]
        known, missing = (await client.ask(DescribeProducersRequest(topics), 0)).topics[0].partitions
        assert [tuple(each) for each in known.active_producers] == [(producer, 1, 1, 1000, -1, -1)]
        assert ErrorCode(missing.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert missing.error_message


async def test_an_answer_tells_of_so_many_producers_and_of_one_partition_at_least(cluster, monkeypatch):
    monkeypatch.setattr(describe_producers, "MAX_PRODUCERS_TOLD", 2)
    broker = await cluster.begin(1, 2)
    await cluster.allocate_producer_ids()
    async with connected(broker.address) as client:
        for producer in range(3):
            records = client_batch(b"x", producer_id=producer, producer_epoch=0, base_sequence=0)
            await client.ask(produce({"t": {0: records, 1: records}}), 9)
        topics = [DescribeProducersRequestTopic("t", [0, 1])]
        first, second = (await client.ask(DescribeProducersRequest(topics), 0)).topics[0].partitions
        assert (first.error_code, len(first.active_producers)) == (0, 3)
        assert ErrorCode(second.error_code) is ErrorCode.THROTTLING_QUOTA_EXCEEDED


async def test_who_may_write_to_no_topic_gets_no_id(cluster):
    """KIP-679: who may write to one gets it."""
    guarded = Guarded(cluster)
    broker = await cluster.begin(1, brokers={"authorizer_class_name": STANDARD})
    async with connected(broker.address) as client:
        assert (await client.ask(BEFORE, 4)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        await guarded.allow(Operation.WRITE)
        assert (await client.ask(BEFORE, 4)).error_code == 0
        topics = [DescribeProducersRequestTopic("t", [0])]
        (row,) = (await client.ask(DescribeProducersRequest(topics), 0)).topics[0].partitions
        assert ErrorCode(row.error_code) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
