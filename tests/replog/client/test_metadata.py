"""The client's view of the cluster."""

import pytest

from replog.client.metadata import ClusterView, Leader, parse_bootstrap
from replog.errors import ErrorCode, ReplogError
from replog.rpc.v1 import common_pb2, log_pb2
from replog.topic import TopicPartition

TP = TopicPartition("t", 0)


def answer(leader: int, epoch: int, topic_id: bytes = b"A" * 16) -> log_pb2.GetMetadataResponse:
    return log_pb2.GetMetadataResponse(
        cluster_id="c",
        controller="127.0.0.1:1",
        brokers=[log_pb2.BrokerMetadata(broker_id=i, address=f"127.0.0.1:{9000 + i}") for i in (1, 2)],
        topics=[
            log_pb2.TopicMetadata(
                topic="t",
                topic_id=topic_id,
                partitions=[log_pb2.PartitionMetadata(partition=0, leader=leader, leader_epoch=epoch)],
            )
        ],
    )


def test_a_leader_is_known_with_its_address_and_epoch() -> None:
    view = ClusterView()
    assert view.leader(TP) is None
    view.apply(answer(leader=2, epoch=5))
    assert view.leader(TP) == Leader(2, "127.0.0.1:9002", 5)
    assert view.leader(TopicPartition("t", 1)) is None


def test_an_answer_with_an_older_epoch_does_not_bring_the_old_leader_back() -> None:
    view = ClusterView()
    view.apply(answer(leader=2, epoch=5))
    view.apply(answer(leader=1, epoch=4))
    assert view.leader(TP) == Leader(2, "127.0.0.1:9002", 5)
    view.apply(answer(leader=1, epoch=6))
    assert view.leader(TP) == Leader(1, "127.0.0.1:9001", 6)


def test_a_topic_created_anew_starts_with_its_own_epochs() -> None:
    view = ClusterView()
    view.apply(answer(leader=2, epoch=5))
    view.apply(answer(leader=1, epoch=0, topic_id=b"B" * 16))
    assert view.leader(TP) == Leader(1, "127.0.0.1:9001", 0)


def test_no_leader_is_none_and_so_is_one_without_an_address() -> None:
    view = ClusterView()
    view.apply(answer(leader=-1, epoch=5))
    assert view.leader(TP) is None
    view.apply(answer(leader=7, epoch=6))
    assert view.leader(TP) is None


def test_a_topic_that_is_gone_is_forgotten() -> None:
    view = ClusterView()
    view.apply(answer(leader=1, epoch=1))
    gone = log_pb2.TopicMetadata(topic="t", error_code=common_pb2.UNKNOWN_TOPIC_OR_PARTITION)
    view.apply(log_pb2.GetMetadataResponse(topics=[gone]))
    assert view.topics == {}


def test_bootstrap_addresses_are_read_once_each_from_text_or_list() -> None:
    assert parse_bootstrap("a:1, b:2,a:1,") == ("a:1", "b:2")
    assert parse_bootstrap(["a:1", "[::1]:2"]) == ("a:1", "[::1]:2")


@pytest.mark.parametrize("bad", ["", " , ", "host", "host:port", "host:70000", [":1"]])
def test_a_bootstrap_that_is_no_address_is_refused(bad: str | list[str]) -> None:
    with pytest.raises(ReplogError) as refused:
        parse_bootstrap(bad)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
