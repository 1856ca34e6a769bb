"""READ_COMMITTED readers: what is aborted is passed over, what is open is waited for (LG-9)."""

import random
import struct
from collections.abc import Sequence

import pytest
from crc32c import crc32c

from replog.client import Consumer, Producer, Record
from replog.client.records import decode_fetched, encode_batch
from replog.log.formats.batch import HEADER, HEADER_SIZE, TRANSACTIONAL, parse_header, with_crc
from replog.log.formats.control_batch import EndTransactionMarker, build_end_transaction_marker
from replog.log.offsets import AbortedTransaction, AppendOrigin
from tests.replog.client.conftest import TP, read
from tests.replog.server.broker.conftest import InProcessCluster


def transactional(producer_id: int, sequence: int, *values: bytes) -> bytes:
    """A data batch of a transaction."""
    return numbered(producer_id, sequence, values, TRANSACTIONAL)


def numbered(producer_id: int, sequence: int, values: Sequence[bytes], attributes: int = 0) -> bytes:
    data = encode_batch([(1000, None, value, ()) for value in values])
    header = parse_header(data, 0)._replace(
        attributes=attributes, producer_id=producer_id, producer_epoch=0, base_sequence=sequence
    )
    payload = bytes(data[HEADER_SIZE:])
    return HEADER.pack(*with_crc(header, payload)) + payload


def marker(producer_id: int, *, committed: bool) -> bytes:
    end = EndTransactionMarker(committed, coordinator_epoch=0)
    return build_end_transaction_marker(end, producer_id=producer_id, producer_epoch=0, timestamp=1000)


def laid_out(batches: Sequence[bytes]) -> bytes:
    """The batches as they lie in a log from offset 0 on."""
    offset, log = 0, bytearray()
    for batch in batches:
        placed = bytearray(batch)
        struct.pack_into(">qii", placed, 0, offset, len(batch) - 12, 0)
        offset += struct.unpack_from(">i", placed, 23)[0] + 1
        log += placed
    return bytes(log)


def values(records: Sequence[Record]) -> list[bytes | None]:
    return [record.value for record in records]


ONE_OF_EACH = laid_out(
    [
        transactional(1, 0, b"aborted", b"aborted too"),  # 0, 1
        bytes(encode_batch([(1000, None, b"plain", ())])),  # 2
        transactional(2, 0, b"committed"),  # 3
        marker(1, committed=False),  # 4
        transactional(1, 2, b"of the next transaction"),  # 5
        marker(2, committed=True),  # 6
        marker(1, committed=True),  # 7
    ]
)


def test_an_answer_of_aborted_batches_and_markers_alone_still_moves_on():
    only = laid_out([transactional(1, 0, b"a"), marker(1, committed=False)])
    assert decode_fetched(only, "t", 0, 0, [AbortedTransaction(1, 0)]) == ([], 2)


def test_a_batch_outside_of_its_producers_aborted_transaction_is_kept():
    """As Kafka's fetcher: only transactional batches are void, of any producer."""
    plain = numbered(1, 0, [b"plain"])
    assert values(decode_fetched(plain, "t", 0, 0, [AbortedTransaction(1, 0)]).records) == [b"plain"]


def test_a_damaged_marker_ends_nothing():
    broken = bytearray(marker(1, committed=False))
    broken[-8] = 0x7F  # the value's length
    struct.pack_into(">I", broken, 17, crc32c(broken[21:]))
    log = laid_out([transactional(1, 0, b"a"), bytes(broken), transactional(1, 1, b"b"), marker(1, committed=False)])
    assert values(decode_fetched(log, "t", 0, 0, [AbortedTransaction(1, 0)]).records) == []


@pytest.mark.parametrize("seed", range(30))
def test_any_history_read_from_any_offset_gives_what_was_committed(seed):
    rng = random.Random(seed)
    batches: list[bytes] = []
    rows: list[tuple[int, bytes, list[bool]]] = []  # offset, value, and whether its transaction was committed, later
    aborted: list[tuple[AbortedTransaction, int]] = []  # and its marker's offset
    open_since: dict[int, tuple[int, list[bool]]] = {}
    sequences = dict.fromkeys(range(4), 0)
    offset = 0
    for _ in range(60):
        producer, action = rng.randrange(4), rng.random()
        if action < 0.2:
            rows.append((offset, b"%d" % offset, [True]))
            batches.append(bytes(encode_batch([(1000, None, b"%d" % offset, ())])))
            offset += 1
        elif action < 0.7:
            count = rng.randint(1, 3)
            first, outcome = open_since.setdefault(producer, (offset, []))
            own = [b"%d" % (offset + i) for i in range(count)]
            rows += [(offset + i, value, outcome) for i, value in enumerate(own)]
            batches.append(transactional(producer, sequences[producer], *own))
            sequences[producer] += count
            offset += count
        elif producer in open_since:
            first, outcome = open_since.pop(producer)
            outcome.append(committed := rng.random() < 0.5)
            if not committed:
                aborted.append((AbortedTransaction(producer, first), offset))
            batches.append(marker(producer, committed=committed))
            offset += 1
    stable = min((first for first, _ in open_since.values()), default=offset)
    log = laid_out(batches)
    for start in range(stable):
        of_answer = [transaction for transaction, end in aborted if end >= start]
        rng.shuffle(of_answer)
        records = decode_fetched(log, "t", 0, start, of_answer).records
        wanted = [(at, value) for at, value, outcome in rows if start <= at < stable and outcome == [True]]
        assert [(r.offset, r.value) for r in records if r.offset < stable] == wanted, f"seed {seed}, from {start}"


async def with_transactions(cluster: InProcessCluster) -> str:
    """A broker whose topic holds `ONE_OF_EACH`, written as a coordinator's clients would, and then an open one."""
    await cluster.start_broker(1)
    await cluster.create_topic("t", replication_factor=1)
    address = cluster.brokers[1].address
    log, offset = cluster.log(1, TP), 0
    for batch in (ONE_OF_EACH, transactional(3, 0, b"undecided")):
        while batch:
            size = struct.unpack_from(">i", batch, 8)[0] + 12
            one = bytearray(batch[:size])
            struct.pack_into(">q", one, 0, 0)
            origin = AppendOrigin.COORDINATOR if one[22] & 0x20 else AppendOrigin.CLIENT
            assert log.append_as_leader(bytes(one), leader_epoch=0, now_ms=0, origin=origin).first_offset == offset
            offset, batch = log.log_end_offset, batch[size:]
    async with Producer(address) as producer:
        assert (await (await producer.send("t", b"after"))).offset == offset
    return address


async def test_a_consumer_reads_committed_records_up_to_the_first_open_transaction(cluster):
    address = await with_transactions(cluster)
    async with Consumer(address, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        assert await consumer.end_offsets([TP]) == {TP: 8}
        consumer.assign([TP])
        records = await consumer.fetch(60)
        assert values(records) == [b"plain", b"committed", b"of the next transaction"]
        assert await consumer.position(TP) == 8
        assert await consumer.fetch(0.2) == []
        log = cluster.log(1, TP)
        log.append_as_leader(marker(3, committed=False), leader_epoch=0, now_ms=0, origin=AppendOrigin.COORDINATOR)
        async with Producer(address) as producer:
            await (await producer.send("t", b"last"))
        records = await read(consumer, 2)
        assert [(r.offset, r.value) for r in records] == [(9, b"after"), (11, b"last")]
    async with Consumer(address, auto_offset_reset="earliest") as consumer:
        consumer.assign([TP])
        assert [record.offset for record in await read(consumer, 8)] == [0, 1, 2, 3, 5, 8, 9, 11]
