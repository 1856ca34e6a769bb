"""Every parser of bytes from outside, each as a call that may raise nothing but what it promises.

A target takes any bytes. What it returns or refuses is right if it comes back at all: a typed error or a read.
"""

import struct
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple
from uuid import UUID

from crc32c import crc32c
from google.protobuf.message import DecodeError
from hpack import Encoder

from replog.client.records import decode_fetched
from replog.common.acl import Acl, Operation, PatternType, Permission, ResourceType
from replog.config.processes import DEFAULT_USER, BrokerConfig
from replog.config.properties import load_properties
from replog.config.topic import TopicConfig, topic_config
from replog.controller.broker_events import Rules, situation
from replog.controller.elections import Strategy
from replog.controller.registration import placeable
from replog.errors import ReplogError
from replog.kafka.codec import decode_request, decode_response, encode_request, encode_response
from replog.kafka.errors import BadFrame
from replog.kafka.frames import ClientFrames, ServerFrames
from replog.kafka.versions import APIS, Api
from replog.log.compaction.rewriting import CleanedTransactions, Compaction, Fates, OffsetMap
from replog.log.directories.identity import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    METADATA_POSITION,
    read_position,
    take_marker,
    verify_or_create,
)
from replog.log.directories.partition_metadata import PARTITION_METADATA, read_topic_id, write_topic_id
from replog.log.epochs import LeaderEpochCache
from replog.log.errors import CorruptIndex
from replog.log.files.names import base_offset_of, segment_file_name
from replog.log.formats.batch import iterate_batches, parse_header, validate_crc
from replog.log.formats.checkpoint import HIGH_WATERMARK_CHECKPOINT, LEADER_EPOCH_CHECKPOINT, OffsetCheckpoint
from replog.log.formats.compression import compress, decompress
from replog.log.formats.control_batch import EndTransactionMarker, build_end_transaction_marker, end_transaction_marker
from replog.log.formats.records import iterate_records
from replog.log.formats.validation import check_leader_batch, check_replicated_batches
from replog.log.indexes.index import DigestIndex, Index, OffsetIndex, TimeIndex
from replog.log.indexes.transaction_index import TransactionIndex
from replog.log.offsets import NO_TIMESTAMP, AppendOrigin
from replog.log.producers.snapshot import ProducerSnapshotEntry, format_snapshot, parse_snapshot, read_snapshot
from replog.log_tools.dump import dump_file
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.records import change_of, record_of
from replog.metadata.values import BrokerRegistration, PartitionState, StandingAudit, Topic
from replog.rpc.codec import RecordsDecoder, WithRecords, encode_with_records
from replog.rpc.http2.protocol.bounds import Bounds
from replog.rpc.http2.protocol.connection import Connection
from replog.rpc.http2.protocol.events import Message
from replog.rpc.http2.protocol.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
)
from replog.rpc.lists import Lists
from replog.rpc.v1 import controller_pb2, log_pb2
from replog.rpc.v1.metadata_pb2 import MetadataRecord
from replog.server.broker.clients.quotas import CONSUMED, PRODUCED, QuotaThrottle
from replog.server.clock import SystemClock
from replog.topic import TopicPartition, parse_directory_name
from tests.replog.kafka.values import REQUEST, RESPONSE, message
from tests.replog.log.batches import client_batch, leader_batch, stamped

BASE = 100
OFFSETS = (0, BASE - 1, BASE, BASE + 1, BASE + 50, BASE + 2**31, 2**63 - 1)


class Target(NamedTuple):
    run: Callable[[bytes], Any]
    made: Callable[[], Sequence[bytes]] | Sequence[bytes]

    def seeds(self) -> Sequence[bytes]:
        return self.made() if callable(self.made) else self.made


@cache
def scratch() -> Path:
    """A directory in memory if there is one, for parsers that read files; gone with the process."""
    memory = Path("/dev/shm")
    made = tempfile.TemporaryDirectory(prefix="replog-fuzz-", dir=memory if memory.is_dir() else None)
    _kept.append(made)
    return Path(made.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []


def as_file(name: str, parse: Callable[[Path], Any]) -> Callable[[bytes], Any]:
    """The bytes as a file of that name, gone afterwards."""

    def run(data: bytes) -> Any:
        path = scratch() / name
        path.write_bytes(data)
        try:
            with suppress(ReplogError):
                return parse(path)
        finally:
            path.unlink(missing_ok=True)

    return run


# -- batches


@cache
def batches() -> list[bytes]:
    plain = client_batch(b"a", (b"k", b"v" * 40), (b"k", None), timestamps=[5, 7, 6])
    marker = EndTransactionMarker(committed=False, coordinator_epoch=3)
    control = build_end_transaction_marker(marker, producer_id=9, producer_epoch=0, timestamp=50)
    packed = [with_payload(plain, compress(codec, plain[61:]), codec) for codec in range(1, 5)]
    producer = client_batch(b"x", producer_id=9, producer_epoch=0, base_sequence=5, transactional=1)
    several = b"".join(leader_batch(BASE + 2 * i, i, b"one", b"two") for i in range(3))
    return [plain, control, producer, several, stamped(plain, BASE, 3), *packed]


def with_payload(batch: bytes, payload: bytes, attributes: int) -> bytes:
    data = bytearray(batch[:61] + payload)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">h", data, 21, attributes)
    return with_crc(bytes(data))


def with_crc(data: bytes) -> bytes:
    """The first batch with the length and the CRC that its bytes have, so that what lies behind them is looked at."""
    if len(data) < 61:
        return data
    return data[:8] + struct.pack(">i", len(data) - 12) + data[12:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]


def walk_batches(data: bytes) -> None:
    with suppress(ReplogError):
        for position, header in iterate_batches(data):
            validate_crc(data, position, header)
    for fixed in (data, with_crc(data)):
        for origin in AppendOrigin:
            with suppress(ReplogError):
                check_leader_batch(fixed, TopicConfig(), origin)
        for holes in (False, True):
            _, fault = check_replicated_batches(fixed, BASE, 0, holes=holes)
            assert fault is None or isinstance(fault, ReplogError)


def decode_records(data: bytes) -> None:
    with suppress(ReplogError):
        fixed = with_crc(data)
        header = parse_header(fixed)
        with suppress(ReplogError):
            end_transaction_marker(fixed, header)
        for record in iterate_records(fixed, header):
            struct.pack(">qq", record.offset, record.timestamp)  # what everything behind takes for granted


def decode_for_a_consumer(data: bytes) -> None:
    for fixed in (data, with_crc(data)):
        with suppress(ReplogError):
            for record in decode_fetched(fixed, "t", 0, BASE).records:
                struct.pack(">qq", record.offset, record.timestamp)


def compact(data: bytes) -> None:
    """What the cleaner makes of a batch: nothing that was sound becomes unsound."""
    fixed = with_crc(data)
    with suppress(ReplogError):
        header = parse_header(fixed)
        try:
            before = list(iterate_records(fixed, header))
        except ReplogError:
            before = None
        keys = OffsetMap(240)
        keys.put(b"k", header.base_offset + 2)
        transactions = CleanedTransactions(lambda _: None)
        compaction = Compaction(keys, Fates(0, 0), 2**63 - 1, transactions, {}, 10**6, 500)
        cleaned = compaction.clean(header, memoryview(fixed), must_stay=True)
        assert cleaned is not None
        assert parse_header(cleaned.data) == cleaned.header
        assert validate_crc(cleaned.data, 0, cleaned.header)
        if before is not None and header.max_timestamp >= NO_TIMESTAMP:
            after = list(iterate_records(cleaned.data, cleaned.header))
            assert [record for record in before if record in after] == after


def unpack(data: bytes) -> None:
    if data:
        with suppress(ReplogError):
            decompress(data[0] % 8, data[1:])


def packed() -> list[bytes]:
    return [bytes([codec]) + compress(codec, text) for codec in range(5) for text in (b"", b"abc" * 99, bytes(70_000))]


# -- files of a segment


def search(kind: type[Index]) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        index = kind(path, BASE)
        try:
            with suppress(CorruptIndex):
                index.check_shape()
            for offset in OFFSETS:
                index.slot_up_to(offset)
                index.lookup(offset)
            with suppress(ReplogError):
                index.append(BASE + 99, 7) if not isinstance(index, TimeIndex) else index.maybe_append(7, BASE + 99)
                index.write()
            index.truncate_to(BASE + 10)
        finally:
            index.close()

    return run


def search_transactions(path: Path) -> None:
    index = TransactionIndex(path, BASE)
    try:
        index.check(BASE + 1000)
        for offset in OFFSETS:
            index.collect(offset, offset + 10)
        index.truncate_to(BASE + 10)
    finally:
        index.close()


def entries(layout: str, *rows: tuple[int, ...]) -> list[bytes]:
    data = b"".join(struct.pack(layout, *row) for row in rows)
    return [data, data * 400]


@cache
def snapshots() -> list[bytes]:
    rows = [ProducerSnapshotEntry(9, 1, 5, 104, 4, 1000, 2, -1), ProducerSnapshotEntry(10, 0, -1, -1, 0, -1, -1, 103)]
    return [format_snapshot([]), format_snapshot(rows)]


def read_snapshot_bytes(data: bytes) -> None:
    fixed = data[:2] + struct.pack(">I", crc32c(data[6:])) + data[6:]
    for snapshot in (data, fixed):
        with suppress(ReplogError):
            format_snapshot(parse_snapshot(snapshot))
    as_file(segment_file_name(BASE, ".snapshot"), read_snapshot)(data)


# -- files of a directory


def topic_ids(path: Path) -> None:
    read_topic_id(path.parent)


def topic_id_seeds() -> list[bytes]:
    write_topic_id(scratch(), b"0123456789abcdef")
    return [(scratch() / PARTITION_METADATA).read_bytes()]


def epochs(path: Path) -> None:
    cache = LeaderEpochCache.load(path)
    for epoch in (-1, 0, 5, 2**31 - 1):
        cache.end_offset_for(epoch, 100)
        cache.epoch_for_offset(epoch)


def offsets(path: Path) -> None:
    for (_, partition), offset in OffsetCheckpoint(path).read().items():
        assert partition >= 0
        assert 0 <= offset < 2**63


def dump(name: str) -> Callable[[bytes], Any]:
    return as_file(name, lambda path: list(dump_file(path, records=True)))


def names(data: bytes) -> None:
    name = data.decode("utf-8", "surrogateescape")
    with suppress(ValueError):
        parsed = parse_directory_name(name)
        assert (parsed.directory_name, parsed.partition >> 31) == (name, 0)
    base = base_offset_of(name)
    assert base is None or 0 <= base < 2**63


def wire(data: bytes) -> None:
    try:
        decoded = RecordsDecoder(log_pb2.ProduceRequest)(data)
    except DecodeError:
        return
    whole = log_pb2.ProduceRequest.FromString(data)
    assert b"".join(decoded.records) == whole.records
    whole.ClearField("records")
    assert decoded.head == whole


def messages() -> list[bytes]:
    head = log_pb2.ProduceRequest(
        correlation_id=7, acks=-1, partitions=[log_pb2.ProducePartition(topic="t", partition=1, records_size=3)]
    )
    return [encode_with_records(WithRecords(head, (b"abc",))), head.SerializeToString()]


def lists(data: bytes) -> None:
    """What passes is not too much as protobuf parses it either."""
    with suppress(DecodeError, ReplogError):
        Lists(controller_pb2.AlterPartitionRequest.DESCRIPTOR, 4, 8).check(data)
        items = controller_pb2.AlterPartitionRequest.FromString(data).partitions
        assert len(items) <= 4
        assert sum(len(item.new_isr) for item in items) <= 8


def many_partitions() -> list[bytes]:
    item = controller_pb2.AlterPartitionItem(topic="t", new_isr=[controller_pb2.IsrMember(broker_id=1)] * 2)
    return [controller_pb2.AlterPartitionRequest(partitions=[item] * 4).SerializeToString()]


def http2(side: Literal["client", "server"]) -> Callable[[bytes], Any]:
    def receive(data: bytes) -> None:
        bounds = Bounds(max_message=100_000, memory=300_000, window=65_535, max_frame=16_384, max_streams=5)
        connection = Connection(side, bounds)
        if side == "client":
            connection.open([(b":method", b"POST")])
        events = connection.receive(data, 0) + connection.receive(data[9:], 1)
        assert sum(len(event.payload) for event in events if isinstance(event, Message)) <= 300_000
        for event in events:
            if isinstance(event, Message):
                connection.consumed(event.stream_id, len(event.payload))
        connection.to_send()

    return receive


def http2_seeds(preface: bytes, fields: list[tuple[bytes, bytes]]) -> Callable[[], Sequence[bytes]]:
    begin = preface + frame(SETTINGS, 0, 0)
    message = b"\0\0\0\0\3abc"
    call = frame(HEADERS, END_HEADERS, 1, Encoder().encode(fields)) + frame(DATA, 0, 1, message * 3)
    more = frame(DATA, END_STREAM, 1, message) + frame(PING, 0, 0, bytes(8)) + frame(RST_STREAM, 0, 1, bytes(4))
    return lambda: [begin + call + more, begin + call + frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1") * 2, begin]


def kafka(api: Api) -> Callable[[bytes], Any]:
    """The first byte is the version, and 128 more for a response. What is read is the same after it was written."""

    def run(data: bytes) -> None:
        if not data or not api.oldest <= (version := data[0] & 127) <= api.newest:
            return
        request = data[0] < 128
        decode, encode = (decode_request, encode_request) if request else (decode_response, encode_response)
        with suppress(BadFrame):
            written = b"".join(encode(api.key, version, decode(api.key, version, memoryview(data)[1:])))
            assert b"".join(encode(api.key, version, decode(api.key, version, memoryview(written)))) == written

    return run


def kafka_seeds(api: Api) -> Callable[[], Sequence[bytes]]:
    def made() -> list[bytes]:
        chance, seeds = Random(api.key), list[bytes]()
        for version in range(api.oldest, api.newest + 1):
            for side, encode in ((REQUEST, encode_request), (RESPONSE, encode_response)):
                pieces = encode(api.key, version, message(api, version, side, chance, most=2))
                seeds.append(bytes([version | side << 7]) + b"".join(pieces))
        return seeds

    return made


def kafka_frames(data: bytes) -> None:
    """Whatever comes, in any pieces, is a request or the end of the connection, and takes little room."""
    halves = [ServerFrames(lambda key, version: version in versions(key), lambda key: 100_000) for _ in range(2)]
    requests = [list[object](), list[object]()]
    for frames, seen, cut in zip(halves, requests, (len(data), len(data) // 2), strict=True):
        for part in (data[:cut], data[cut:]):
            frames.receive(part)
            assert frames.held() <= 8 * len(data) + 1024
            while (request := frames.next()) is not None:
                seen.append(request._replace(message=request.message is None))  # a NaN is not equal to itself
                frames.answer(request.number, [b"answer"])
                frames.to_send(1 << 20)
    assert requests[0] == requests[1]
    assert bool(halves[0].failure) == bool(halves[1].failure)


def versions(key: int) -> range:
    return range(APIS[key].oldest, APIS[key].newest + 1) if key in APIS else range(0)


def kafka_frame_seeds() -> list[bytes]:
    client, chance = ClientFrames("client", 1 << 20), Random(1)
    asked = [
        (api.key, version, message(api, version, REQUEST, chance, most=2))
        for api in APIS.values()
        for version in (api.oldest, api.newest)
    ]
    frames = [b"".join(client.ask(*each)) for each in asked]
    return [b"".join(frames[at : at + 4]) for at in range(0, len(frames), 4)]


LOG = segment_file_name(BASE, ".log")
INDEX, TIMES, DIGESTS = (segment_file_name(BASE, suffix) for suffix in (".index", ".timeindex", ".digest"))
TRANSACTIONS = segment_file_name(BASE, ".txnindex")


def transaction_seeds() -> list[bytes]:
    return [b"".join(TransactionIndex.layout.pack(0, *row) for row in ((9, 101, 104, 105), (10, 103, 108, 104)))]


def metadata_seeds() -> list[bytes]:
    settings = ("retention.ms", "1h"), ("min_insync_replicas", "1"), ("max.message.bytes", "2000.0"), ("later", "x")
    throttled = {"leader.replication.throttled.replicas": "0:1,00:1", "cleanup.policy": "delete,compact"}
    acl = Acl(ResourceType.TOPIC, "t", PatternType.PREFIXED, "User:a", "10.0.0.0/8", Operation.READ, Permission.DENY)
    broker = BrokerRegistration(1, 5, bytes(16), "a..b:9", "r", False, False)
    changes = [
        *(Change("topic", "t", Topic("t", bytes(16), each)) for each in (dict(settings), throttled)),
        Change("broker_config", 1, {"leader_replication_throttled_rate": "5", "cordoned.log.dirs": "*"}),
        Change("client_quota", DEFAULT_USER, {"producer_byte_rate": "1000000.0"}),
        Change("acl", "61" * 16, acl),
        Change("broker", 1, broker),
        Change("partition", TopicPartition("t", 0), PartitionState((1, 2), (1,), 1, 0, 0), bytes(16)),
        Change("audit", None, StandingAudit("CONSISTENT", "deep", 2**63 - 1, (), 1, (), 0)),
    ]
    return [record_of(change._replace(version=7)).SerializeToString() for change in changes]


def follow_metadata(data: bytes) -> None:
    """What brokers, controllers and clients read of a record, by whatever hand."""
    try:
        change = change_of(MetadataRecord.FromString(data))
    except (DecodeError, ReplogError):
        return
    image = MetadataImage()
    image.put(change._replace(version=1))
    record_of(change)
    for name, topic in image.topics.items():
        allowed = situation(image, Rules(2), name, frozenset()).strategy is Strategy.AGGRESSIVE
        assert allowed or not topic_config(name, topic.configs).unclean_leader_election_enable
    config = BrokerConfig.parse({"node.id": 1, "log.dirs": "/d"}, "fuzz")
    for altered in image.broker_configs.values():
        config.dynamic(altered)
    for user in image.client_quotas:
        for kind in (PRODUCED, CONSUMED):
            assert (QuotaThrottle(user, kind, image.client_quotas, SystemClock()).rate or 1) >= 0
    for acl in image.acls.ids:
        image.acls.verdict(acl.principal, "10.0.0.7", Operation.READ, ResourceType.TOPIC, "t")
        image.acls.allows_any(acl.principal, "10.0.0.7", Operation.READ, ResourceType.TOPIC)
    placeable(image)


INDEX_SEEDS = entries(">ii", (0, 0), (5, 70), (9, 140))
TIME_SEEDS = entries(">qi", (1, 0), (1000, 5), (1001, 9))
DIGEST_SEEDS = entries(">IQ", (0, 2**64 - 1), (5, 1), (9, 77))
EPOCH_SEEDS = [b"0\n2\n0 0\n7 105\n", b"0\n0\n", b"0\n1\n2147483647 9223372036854775807"]
CHECKPOINT_SEEDS = [b"0\n2\nt 0 5\na-b 12 9\n", b"0\n", b""]
POSITION_SEEDS = [b"cluster.id=c\nhistory.id=00ff\nmetadata.version=17\n"]
NAMES = [b"a-b-12", LOG.encode(), b"t-0." + b"0" * 32 + b"-delete", b"9" * 20 + b".log", b"t-2147483648"]
IDENTITY_SEEDS = [b"# c\n#\ncluster.id=c\ndirectory.id=AAAAAAAAAAAAAAAAAAAABQ\nnode.id=3\nversion=1\n"]

TARGETS: dict[str, Target] = {
    "batches": Target(walk_batches, batches),
    "records": Target(decode_records, batches),
    "records of a consumer": Target(decode_for_a_consumer, batches),
    "cleaner": Target(compact, batches),
    "compression": Target(unpack, packed),
    "offset index": Target(as_file(INDEX, search(OffsetIndex)), INDEX_SEEDS),
    "time index": Target(as_file(TIMES, search(TimeIndex)), TIME_SEEDS),
    "digest index": Target(as_file(DIGESTS, search(DigestIndex)), DIGEST_SEEDS),
    "transaction index": Target(as_file(TRANSACTIONS, search_transactions), transaction_seeds),
    "producer snapshot": Target(read_snapshot_bytes, snapshots),
    "leader epochs": Target(as_file(LEADER_EPOCH_CHECKPOINT, epochs), EPOCH_SEEDS),
    "offset checkpoint": Target(as_file("checkpoint", offsets), CHECKPOINT_SEEDS),
    "partition metadata": Target(as_file(PARTITION_METADATA, topic_ids), topic_id_seeds),
    "meta.properties": Target(
        as_file(
            META_PROPERTIES,
            lambda path: verify_or_create(path.parent, cluster_id="c", node_id=3, directory_id=UUID(int=1)),
        ),
        IDENTITY_SEEDS,
    ),
    "metadata position": Target(as_file(METADATA_POSITION, lambda path: read_position(path.parent)), POSITION_SEEDS),
    "clean shutdown marker": Target(
        as_file(CLEAN_SHUTDOWN, lambda path: take_marker(path.parent, 1)), lambda: [b'{"version":0,"brokerEpoch":17}']
    ),
    "properties": Target(as_file("server.properties", load_properties), IDENTITY_SEEDS),
    "names": Target(names, NAMES),
    "wire": Target(wire, messages),
    "metadata": Target(follow_metadata, metadata_seeds),
    "lists": Target(lists, many_partitions),
    "HTTP/2 of a client": Target(
        http2("server"), http2_seeds(PREFACE, [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a/b")])
    ),
    "HTTP/2 of a server": Target(http2("client"), http2_seeds(b"", [(b":status", b"200"), (b"grpc-status", b"0")])),
    **{f"Kafka's {api.name}": Target(kafka(api), kafka_seeds(api)) for api in APIS.values()},
    "Kafka's frames": Target(kafka_frames, kafka_frame_seeds),
    "dump of a log": Target(dump(LOG), batches),
    "dump of an offset index": Target(dump(INDEX), INDEX_SEEDS),
    "dump of a time index": Target(dump(TIMES), TIME_SEEDS),
    "dump of a digest index": Target(dump(DIGESTS), DIGEST_SEEDS),
    "dump of a transaction index": Target(dump(TRANSACTIONS), transaction_seeds),
    "dump of a snapshot": Target(dump(segment_file_name(BASE, ".snapshot")), snapshots),
    "dump of a checkpoint": Target(dump(HIGH_WATERMARK_CHECKPOINT), CHECKPOINT_SEEDS),
    "dump of a topic id": Target(dump(PARTITION_METADATA), topic_id_seeds),
    "dump of leader epochs": Target(dump(LEADER_EPOCH_CHECKPOINT), EPOCH_SEEDS),
}
