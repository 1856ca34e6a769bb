"""Replicas of a live cluster, read from their brokers with the gRPC service Inspection.

Calls block, since Spark's tasks have no event loop; they have deadlines, and are tried again with backoff.
"""

import errno
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from random import Random
from typing import Any

import grpc

from replog.client.metadata import parse_bootstrap
from replog.common.backoff import Backoff
from replog.errors import ErrorCode, ReplogError
from replog.log.directories.partition_metadata import format_topic_id
from replog.log.errors import CorruptRecord
from replog.log.files.names import DIGEST_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from replog.log.formats.batch import HEADER_SIZE, BatchHeader, parse_header
from replog.log.formats.checkpoint import LEADER_EPOCH_CHECKPOINT, MAX_CHECKPOINT_BYTES
from replog.log.formats.segment_file import Vanished
from replog.rpc.grpcio.channel import blocking_channel, from_rpc_error
from replog.rpc.limits import MAX_ANSWER_BYTES
from replog.rpc.methods import Inspection, Log, Method
from replog.rpc.v1 import inspection_pb2 as pb
from replog.rpc.v1 import log_pb2
from replog.topic import TopicPartition
from spark_jobs.kafka_options import Security, tls_with
from spark_jobs.replicas.faults import UNREADABLE
from spark_jobs.replicas.files import (
    EpochCheckpoint,
    Listed,
    PartitionFiles,
    ReplicaSegment,
    epoch_checkpoint,
    segments_of,
)

CALL_TIMEOUT_S = 20.0  # one call's; the longest reads an index file
TRIES = 6  # tries of one call, if the broker cannot be reached
FIRST_WAIT_S = 2.0  # the first try's timeout for each of several brokers
_FILES = {
    LOG_SUFFIX: pb.LOG,
    INDEX_SUFFIX: pb.OFFSET_INDEX,
    TIME_INDEX_SUFFIX: pb.TIME_INDEX,
    DIGEST_SUFFIX: pb.DIGEST_INDEX,
}
_NO_ANSWER = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)


def broker_stores(
    bootstrap: str | Sequence[str],
    topics: frozenset[str] = frozenset(),
    replicas: frozenset[int] = frozenset(),
    security: Security = (),
) -> "list[BrokerStore]":
    """Return a store for each broker that has replicas by the cluster's metadata, even if it is down; only for `topics`
    and `replicas`, unless these are empty. Raises OSError if no broker answers, or a topic or an address is wrong.
    """
    try:
        addressed = parse_bootstrap(bootstrap)
    except ReplogError as error:
        raise OSError(errno.EINVAL, f"bootstrap.servers: {error.message}") from None
    metadata = _metadata(addressed, sorted(topics), security)
    addresses = {broker.broker_id: broker.address for broker in metadata.brokers}
    assigned: dict[int, list[TopicPartition]] = {}
    for topic in metadata.topics:
        if topic.error_code:
            raise OSError(errno.ENOENT, f"the cluster does not know topic {topic.topic!r}; check its name")
        for partition in topic.partitions:
            for replica in partition.replicas:
                assigned.setdefault(replica, []).append(TopicPartition(topic.topic, partition.partition))
    return [
        BrokerStore(replica, addresses.get(replica, ""), tuple(sorted(partitions)), security)
        for replica, partitions in sorted(assigned.items())
        if not replicas or replica in replicas
    ]


def _metadata(addresses: Sequence[str], topics: list[str], security: Security) -> log_pb2.GetMetadataResponse:
    """Return the metadata of the first broker that answers; every round waits longer for each of them."""
    request = log_pb2.GetMetadataRequest(topics=topics, max_bytes=MAX_ANSWER_BYTES)
    backoff = Backoff(Random())
    for attempt in range(TRIES):
        if attempt > 0:
            time.sleep(backoff.next_s())
        failures = []
        for address in addresses:
            connection = _Connection(address, security)
            try:
                wait_s = min(FIRST_WAIT_S * 2**attempt, CALL_TIMEOUT_S)
                response: log_pb2.GetMetadataResponse = connection.call(Log["get_metadata"], request, wait_s, 1)
                return response
            except OSError as error:
                failures.append(str(error))
            finally:
                connection.close()
    asked = f"are bootstrap.servers and security.protocol right? ({'; '.join(failures)})"
    raise OSError(errno.EHOSTUNREACH, f"no broker answers; {asked}")


class _Connection:
    """Calls to one broker. Errors are OSErrors: FileNotFoundError for a file that the broker does not have, Vanished
    for a replica.

    A broker that gave no answer is not asked again, otherwise each segment of a task would wait for it.
    """

    def __init__(self, address: str, security: Security = ()) -> None:
        self._address = address
        self._security = security
        self._channel: grpc.Channel | None = None
        self._silent: str | None = None  # why no answer came

    def _open(self) -> grpc.Channel:
        if self._channel is None:
            self._channel = blocking_channel(self._address, tls_with(self._security))
        return self._channel

    def call(self, method: Method, request: Any, timeout_s: float | None = None, tries: int = TRIES) -> Any:
        call = self._open().unary_unary(method.path, method.encode_request, method.decode_response)
        return self._tried(lambda: call(request, timeout=timeout_s or CALL_TIMEOUT_S), tries)

    def stream(self, method: Method, request: Any, most: int) -> list[Any]:
        """Return all answers. Raises OSError if they have more than `most` bytes of records."""
        call = self._open().unary_stream(method.path, method.encode_request, method.decode_response)
        answers: list[Any] = self._tried(lambda: self._bounded(call(request, timeout=CALL_TIMEOUT_S), most), TRIES)
        return answers

    def _bounded(self, answers: Any, most: int) -> list[Any]:
        taken: list[Any] = []
        held = 0
        for answer in answers:
            held += sum(map(len, answer.records))
            if held > most or len(taken) > 1 + most // HEADER_SIZE:
                answers.cancel()
                sent = f"{len(taken) + 1} answers with {held} bytes"
                raise OSError(f"{self._address} sent {sent} to a call for {most} bytes")
            taken.append(answer)
        return taken

    def close(self) -> None:
        """Close the channel; the next call opens another."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _tried(self, call: Callable[[], Any], tries: int) -> Any:
        if self._silent is not None:
            raise OSError(self._silent)
        backoff, deadline, attempt = Backoff(Random()), time.monotonic() + CALL_TIMEOUT_S, 0
        while True:
            try:
                return call()
            except grpc.RpcError as error:
                failure = from_rpc_error(error, self._address)
            if failure.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED and time.monotonic() < deadline:
                pass  # a broker limits calls at a time, and an audit of many tasks has to wait
            else:
                attempt += 1
                if failure.code is not ErrorCode.NETWORK_EXCEPTION or attempt == tries:
                    break
            time.sleep(backoff.next_s())
        message = failure.message if self._address in failure.message else f"{self._address}: {failure.message}"
        if failure.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise Vanished(message)
        if failure.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise FileNotFoundError(message)
        self._silent = message if failure.code in _NO_ANSWER else None
        raise OSError(message)


@dataclass
class BrokerStore:
    """The `ReplicaStore` of a running broker."""

    replica: int
    address: str  # empty: the cluster has no such broker
    assigned: tuple[TopicPartition, ...] = field(repr=False)  # its partitions by the metadata
    security: Security = ()
    _connection: _Connection | None = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    @property
    def place(self) -> str:
        return f"broker {self.replica} at {self.address or 'no known address'}"

    def connection(self) -> _Connection:
        if not self.address:
            raise OSError(f"the cluster has no broker {self.replica}, or it never registered")
        if self._connection is None:
            self._connection = _Connection(self.address, self.security)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def for_segments(self) -> "BrokerStore":
        """Return this store without `assigned`, which may be long."""
        return replace(self, assigned=())

    def partitions(self, topics: frozenset[str]) -> list[PartitionFiles]:
        """List every partition, with all its bounds as of one moment. This takes one call for each topic."""
        files = []
        for topic, partitions in groupby(self.assigned, key=lambda partition: partition.topic):
            if topics and topic not in topics:
                continue
            described: dict[TopicPartition, pb.ReplicaDescription] = {}
            missing = "the broker has no replica of it"
            try:
                described = self._describe(topic, digests=True)
            except OSError as error:
                missing = str(error)
            for partition in partitions:
                if partition in described:
                    files.append(self._files(partition, described[partition]))
                else:
                    files.append(PartitionFiles(self, partition, error=missing))
        return files

    def _describe(self, topic: str, *, digests: bool) -> dict[TopicPartition, pb.ReplicaDescription]:
        request = pb.DescribeReplicasRequest(topic=topic, digests=digests, max_bytes=MAX_ANSWER_BYTES)
        response = self.connection().call(Inspection["describe_replicas"], request)
        if response.broker_id != self.replica:
            raise OSError(f"{self.address} is broker {response.broker_id}, not {self.replica}")
        return {TopicPartition(described.topic, described.partition): described for described in response.replicas}

    def _files(self, partition: TopicPartition, described: pb.ReplicaDescription) -> PartitionFiles:
        listed = [
            Listed(segment.base_offset, segment.size, segment.digest if segment.HasField("digest") else None)
            for segment in described.segments
        ]
        try:
            segments = segments_of(self, partition, listed, described.cleaned_to)
        except OSError as error:
            return PartitionFiles(self, partition, error=str(error))
        return PartitionFiles(
            self,
            partition,
            described.log_start_offset,
            described.high_watermark,
            segments,
            log_end=described.log_end_offset,
            leads=described.is_leader,
            leader_epoch=described.leader_epoch,
            cleaned_to=described.cleaned_to,
            topic_id=format_topic_id(described.topic_id) or None,
        )

    def epochs(self, partition: TopicPartition) -> EpochCheckpoint:
        path = f"{self.place}/{partition.directory_name}/{LEADER_EPOCH_CHECKPOINT}"
        try:
            file = _RemoteFile(self.connection(), *partition, 0, pb.LEADER_EPOCH_CHECKPOINT)
            raw = file.read(0, min(file.open(), MAX_CHECKPOINT_BYTES + 1))
        except FileNotFoundError:
            raw = b""
        except OSError as error:
            return EpochCheckpoint((), UNREADABLE, str(error), path)
        return epoch_checkpoint(raw, path)

    def again(self, partition: TopicPartition) -> PartitionFiles:
        described = self._describe(partition.topic, digests=False).get(partition)
        if described is None:
            raise Vanished(f"{self.place} has no replica of {partition} any more")
        return self._files(partition, described)

    def snapshots(self, segment: ReplicaSegment) -> None:
        """Return None: a running broker does not show them."""

    def identity(self, partition: TopicPartition) -> str:
        return ""

    @contextmanager
    def open(self, segment: ReplicaSegment, suffix: str) -> "Iterator[_RemoteFile]":
        file = _RemoteFile(self.connection(), *segment.topic_partition, segment.base, _FILES[suffix])
        file.open()
        yield file


class _RemoteFile:
    """The `SegmentFile` of a broker. Each read names the file, and raises Vanished if it is gone meanwhile."""

    def __init__(self, connection: _Connection, topic: str, partition: int, base: int, kind: pb.SegmentFile) -> None:
        self._connection = connection
        self._segment: dict[str, Any] = {"topic": topic, "partition": partition, "segment_base_offset": base}
        self._kind = kind
        self.size = 0

    def open(self) -> int:
        """Ask for the size, and return it. Raises FileNotFoundError."""
        pieces = self._pieces(0, 1)
        if not pieces or pieces[0].head.file_size < 0:
            raise OSError("asked for the size of a file, got none")
        self.size = pieces[0].head.file_size
        return self.size

    def read(self, position: int, size: int) -> bytes:
        if size <= 0:
            return b""
        data = bytearray()
        for piece in self._still_there(lambda: self._pieces(position, size)):
            if piece.head.position != position + len(data):
                raise OSError(f"asked for {position + len(data)}, got {piece.head.position}")
            for records in piece.records:
                data += records
        return bytes(data)

    def read_into(self, position: int, buffer: memoryview) -> int:
        data = self.read(position, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def headers(self, position: int, count: int) -> list[tuple[int, BatchHeader]]:
        request = pb.ReadBatchHeadersRequest(**self._segment, position=position, max_headers=count)
        batches = []
        for raw in self._headers(request, count):
            header = _parsed(raw)
            if header is None or position + header.size > self.size:
                break
            batches.append((position, header))
            position += header.size
        return batches

    def headers_at(self, positions: Sequence[int]) -> list[tuple[int, BatchHeader]]:
        if not positions:
            return []
        request = pb.ReadBatchHeadersRequest(**self._segment, positions=positions)
        raw = self._headers(request, len(positions))
        if len(raw) < len(positions):
            raise OSError(f"asked for {len(positions)} headers, got {len(raw)}")
        parsed = zip(positions, map(_parsed, raw), strict=True)
        return [(position, header) for position, header in parsed if header is not None]

    def will_read(self, positions: Sequence[int]) -> None:
        """Do nothing: headers come thousands at a time anyway."""

    def _headers(self, request: pb.ReadBatchHeadersRequest, most: int) -> list[bytes]:
        bytes_wanted = most * HEADER_SIZE
        call = Inspection["read_batch_headers"]
        pieces = self._still_there(lambda: self._connection.stream(call, request, bytes_wanted))
        data = b"".join(bytes(records) for piece in pieces for records in piece.records)
        if len(data) % HEADER_SIZE:
            raise OSError(f"asked for {most} headers, got {len(data)} bytes")
        return [data[at : at + HEADER_SIZE] for at in range(0, len(data), HEADER_SIZE)]

    def _pieces(self, position: int, size: int) -> list[Any]:
        request = pb.ReadFileRequest(**self._segment, file=self._kind, position=position, size=size)
        return self._connection.stream(Inspection["read_file"], request, size)

    def _still_there(self, call: Callable[[], list[Any]]) -> list[Any]:
        try:
            return call()
        except FileNotFoundError as error:
            raise Vanished(f"the file is gone: {error}") from None


def _parsed(raw: bytes) -> BatchHeader | None:
    try:
        return parse_header(raw)
    except CorruptRecord:
        return None
