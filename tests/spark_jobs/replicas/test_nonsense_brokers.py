"""A broker that answers nonsense, or nothing, is told as an OSError, in bounded memory. Real gRPC."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import repeat
from typing import Any

import grpc
import pytest

from replog.rpc.codec import WithRecords
from replog.rpc.methods import Inspection, Log, Method
from replog.rpc.v1 import inspection_pb2 as pb
from replog.rpc.v1 import log_pb2
from replog.topic import TopicPartition
from spark_jobs.replicas import brokers
from spark_jobs.replicas.brokers import BrokerStore, broker_stores
from spark_jobs.replicas.files import ReplicaSegment

TP = TopicPartition("t", 0)
MIB = bytes(1 << 20)


class Broker:
    """Answers what it is told to."""

    def __init__(self) -> None:
        self.metadata = log_pb2.GetMetadataResponse()
        self.described = pb.DescribeReplicasResponse(broker_id=1)
        self.pieces: Iterator[WithRecords[pb.ReadFileResponse]] = iter(())
        self.headers: Iterator[WithRecords[pb.ReadBatchHeadersResponse]] = iter(())

    def handler(self, method: Method, answer: Callable[[], Any]) -> grpc.RpcMethodHandler:
        make = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        return make(lambda request, context: answer(), method.decode_request, method.encode_response)


@pytest.fixture
def broker() -> Iterator[tuple[Broker, BrokerStore]]:
    broker = Broker()
    server = grpc.server(ThreadPoolExecutor(2))
    answers: list[tuple[Method, Callable[[], Any]]] = [
        (Log["get_metadata"], lambda: broker.metadata),
        (Inspection["describe_replicas"], lambda: broker.described),
        (Inspection["read_file"], lambda: broker.pieces),
        (Inspection["read_batch_headers"], lambda: broker.headers),
    ]
    for method, answer in answers:
        _, service, name = method.path.split("/")
        handler = grpc.method_handlers_generic_handler(service, {name: broker.handler(method, answer)})
        server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    store = BrokerStore(1, f"127.0.0.1:{port}", (TP,))
    yield broker, store
    store.close()
    server.stop(None).wait()


def piece(position: int, size: int, data: bytes = b"") -> WithRecords[pb.ReadFileResponse]:
    return WithRecords(pb.ReadFileResponse(position=position, file_size=size), (data,))


def segment(store: BrokerStore) -> ReplicaSegment:
    return ReplicaSegment(store, "t", 0, 0, None, 0, 0, 0)


@pytest.mark.parametrize("pieces", [[], [piece(0, -5)]])
def test_a_file_without_a_size_is_an_error(broker, pieces):
    answers, store = broker
    answers.pieces = iter(pieces)
    with pytest.raises(OSError, match="asked for the size"), segment(store).open(".log"):
        pass


@pytest.mark.parametrize("data", [MIB, b""])
def test_an_answer_without_end_is_cut_off(broker, data):
    answers, store = broker
    answers.pieces = repeat(piece(0, 1 << 30, data))
    with pytest.raises(OSError, match="to a call for 1 bytes"), segment(store).open(".index"):
        pass


@pytest.mark.parametrize(
    ("sizes", "told"),
    [([60], "got 60 bytes"), ([61], "asked for 2 headers, got 1"), ([61] * 3, "to a call for 122 bytes")],
)
def test_headers_other_than_those_asked_for_are_an_error(broker, sizes, told):
    answers, store = broker
    answers.pieces = iter([piece(0, 1000)])
    answers.headers = iter([WithRecords(pb.ReadBatchHeadersResponse(), (bytes(size),)) for size in sizes])
    with segment(store).open(".log") as file, pytest.raises(OSError, match=told):
        file.headers_at([0, 100])


@pytest.mark.parametrize(
    "segments", [[(7, 1), (3, 1)], [(3, 1), (3, 1)], [(-1, 1)], [(0, -1)], [(2**63 - 1, 0)], [(0, 2**62), (1, 2**62)]]
)
def test_segments_that_cannot_be_are_an_error_of_the_partition(broker, segments):
    answers, store = broker
    listed = [pb.SegmentDescription(base_offset=base, size=size) for base, size in segments]
    sound = [pb.SegmentDescription(base_offset=0, size=1)]
    for partition, described in enumerate((listed, sound)):
        answers.described.replicas.append(pb.ReplicaDescription(topic="t", partition=partition, segments=described))
    with closing(replace(store, assigned=(TP, TopicPartition("t", 1)))) as both:
        files, other = both.partitions(frozenset())
    assert "t-0 cannot have a segment" in (files.error or ""), files
    assert other.error is None, other


def test_another_broker_at_the_address_is_told(broker):
    answers, store = broker
    answers.described.broker_id = 5
    (files,) = store.partitions(frozenset())
    assert "is broker 5, not 1" in (files.error or "")


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and says nothing, as a process does that was stopped."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_silent_broker_is_waited_for_once(silent, monkeypatch):
    """However many topics and segments it has."""
    waits: list[float] = []
    monkeypatch.setattr(brokers, "CALL_TIMEOUT_S", 0.05)
    monkeypatch.setattr(brokers.time, "sleep", waits.append)
    topics = [TopicPartition(f"t{number}", 0) for number in range(20)]
    store = BrokerStore(1, silent, tuple(topics))
    listed = store.partitions(frozenset())
    assert [files.partition for files in listed] == topics
    assert all("did not answer in time" in (files.error or "") for files in listed)
    with pytest.raises(OSError, match="did not answer in time"):
        store.again(topics[0])
    assert waits == [], "what timed out once is not tried again"


def test_one_silent_broker_does_not_keep_another_from_being_asked(silent, broker, monkeypatch):
    monkeypatch.setattr(brokers, "FIRST_WAIT_S", 0.3)
    told, store = broker
    told.metadata.brokers.add(broker_id=1, address=store.address)
    told.metadata.topics.add(topic="t").partitions.add(partition=0, replicas=[1])
    assert [other.address for other in broker_stores(f"{silent},{store.address}")] == [store.address]
