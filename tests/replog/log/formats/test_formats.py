"""Formats, by chance: what is written is what is read, and every search finds what a walk over all entries finds."""

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from replog.log.directories.partition_metadata import read_topic_id, write_topic_id
from replog.log.epochs import LeaderEpochCache
from replog.log.formats.batch import iterate_batches, parse_header, validate_crc
from replog.log.formats.checkpoint import OffsetCheckpoint
from replog.log.formats.records import LogRecord, iterate_records
from replog.log.indexes.index import DigestIndex, OffsetIndex, TimeIndex
from replog.log.indexes.transaction_index import AbortedTxn, TransactionIndex
from replog.log.offsets import UNDEFINED_EPOCH_END, EpochEndOffset
from replog.topic import TopicPartition
from tests.replog.log.batches import stamped

BASE = 2**40
COUNTS = [0, 1, 2, 681, 682, 683, 1023, 1024, 1025, 1026, 2100, 5000]  # around one and two warm sections (IX-17)


def steps(rng: random.Random, count: int, most: int) -> list[int]:
    """Rising numbers."""
    total, numbers = 0, []
    for _ in range(count):
        total += rng.randint(1, most)
        numbers.append(total)
    return numbers


def around(numbers: list[int], rng: random.Random) -> list[int]:
    """Numbers to look for: those there are, the ones beside them, and beyond both ends."""
    some = rng.sample(numbers, min(len(numbers), 60)) + numbers[:2] + numbers[-2:]
    return [number + step for number in some for step in (-1, 0, 1)] + [-(10**6), -1, 0, 10**9]


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize("count", COUNTS)
def test_index_searches_find_what_a_walk_finds(tmp_path, count, reopened):
    """IX-11, IX-12, IX-16, IX-17, S-W-I1, S-W-I2, S-W-I4, S-W-T1: offsets, times, digests and the upper bounds of
    positions, without Kafka's quirk of going one further when the first slot searched is the answer."""
    rng = random.Random(count)
    relative, positions, times = steps(rng, count, 9), steps(rng, count, 5000), steps(rng, count, 30)
    kinds = OffsetIndex, TimeIndex, DigestIndex
    offsets, by_time, digests = [kind(tmp_path / kind.__name__, BASE) for kind in kinds]
    for offset, position, time in zip(relative, positions, times, strict=True):
        offsets.append(BASE + offset, position)
        by_time.maybe_append(time, BASE + offset)
        digests.append(BASE + offset, position**5 % 2**64)
    for index in (offsets, by_time, digests):
        index.write()
    if reopened:
        offsets, by_time, digests = [kind(tmp_path / kind.__name__, BASE) for kind in kinds]
    rows = list(zip(relative, positions, times, strict=True))
    assert offsets.last_offset == (BASE + relative[-1] if rows else None)  # Kafka says the base offset of an empty one
    for target in around(relative, rng):
        known = [row for row in rows if row[0] <= target]
        assert offsets.lookup(BASE + target) == ((BASE + known[-1][0], known[-1][1]) if known else (BASE, 0))
        digest = digests.lookup(BASE + target)
        assert digest == ((BASE + known[-1][0], known[-1][1] ** 5 % 2**64) if known else (BASE - 1, 0))
        assert by_time.slot_up_to(BASE + target) == len(known) - 1
    for target in around(times, rng):
        earlier = [row for row in rows if row[2] <= target]
        assert by_time.lookup(target) == ((earlier[-1][2], BASE + earlier[-1][0]) if earlier else (-1, BASE))
    for target in around(positions, rng):
        size = rng.randint(0, 3000)
        later = [row for row in rows if row[1] >= target + size]
        bound = offsets.fetch_upper_bound(target, size)
        assert bound == ((BASE + later[0][0], later[0][1]) if later else None)
    for index in (offsets, by_time, digests):
        index.close()


transactions = st.lists(
    st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 50), st.integers(1, 30), st.integers(0, 60)), max_size=30
)


@settings(max_examples=60)
@given(transactions, st.integers(0, 500), st.integers(0, 200), st.integers(0, 600))
def test_transaction_index_searches_find_what_a_walk_finds(rows, start, length, cut):
    """IX-19."""
    entries, last = [], BASE - 1
    for producer_id, before, step, stable in rows:
        last += step
        entries.append(AbortedTxn(producer_id, last - before, last, last - stable))
    with TemporaryDirectory() as name:
        path = Path(name) / f"{BASE:020d}.txnindex"
        index = TransactionIndex(path, BASE)
        for entry in entries:
            index.append(entry)
        index.write()
        index.close()
        index = TransactionIndex(path, BASE)
        index.check(BASE + 2**31)
        assert list(index.entries()) == entries
        offset, upper = BASE + start, BASE + start + length
        expected, complete = [], False
        for entry in entries:
            if entry.last_offset >= offset and entry.first_offset < upper:
                expected.append(entry)
            complete = entry.last_offset >= offset and entry.last_stable_offset >= upper
            if complete:
                break
        assert index.collect(offset, upper) == (expected, complete)
        index.truncate_to(BASE + cut)
        assert list(index.entries()) == [entry for entry in entries if entry.last_offset < BASE + cut]
        assert path.exists() == (index.count > 0)
        index.close()
        assert list(TransactionIndex(path, BASE).entries()) == [
            each for each in entries if each.last_offset < BASE + cut
        ]


headers = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=20)), max_size=3)
fields = st.none() | st.binary(max_size=200)


@given(
    st.lists(st.tuples(fields, fields, st.integers(0, 2**62), headers), min_size=1, max_size=10),
    st.integers(0, 2**62),
    st.integers(0, 2**31 - 1),
    st.sampled_from(range(5)),
    st.tuples(st.integers(-1, 2**63 - 1), st.integers(-1, 2**15 - 1), st.integers(-1, 2**31 - 1), st.booleans()),
)
def test_batches_of_another_encoder_are_read(rows, base, leader_epoch, codec, producer):
    """2.1, 2.2, 2.4."""
    producer_id, epoch, sequence, transactional = producer
    builder = DefaultRecordBatchBuilder(2, codec, transactional, producer_id, epoch, sequence, 2**31 - 1)
    for number, (key, value, time, header) in enumerate(rows):
        builder.append(number, time, key, value, header)
    data = stamped(bytes(builder.build()), base, leader_epoch)
    ((position, batch),) = iterate_batches(data)
    assert (position, batch.size, batch.base_offset, batch.leader_epoch) == (0, len(data), base, leader_epoch)
    assert (batch.last_offset, batch.records_count) == (base + len(rows) - 1, len(rows))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (producer_id, epoch, sequence)
    assert (batch.attributes & 7, bool(batch.attributes & 16)) in ((codec, transactional), (0, transactional))
    assert (batch.base_timestamp, batch.max_timestamp) == (rows[0][2], max(time for _, _, time, _ in rows))
    assert validate_crc(data, 0, batch)
    assert list(iterate_records(data, parse_header(data))) == [
        LogRecord(base + number, time, key, value, tuple(header))
        for number, (key, value, time, header) in enumerate(rows)
    ]


@settings(max_examples=60)
@given(st.dictionaries(st.integers(0, 30), st.integers(1, 9)), st.integers(-1, 40), st.integers(0, 300))
def test_epochs_are_read_back_and_searched_right(epochs, epoch, offset):
    """EP-1, EP-6, EP-7."""
    entries, start = [], 0
    for known in sorted(epochs):
        start += epochs[known]
        entries.append((known, start))
    end = start + 5
    with TemporaryDirectory() as name:
        path = Path(name) / "leader-epoch-checkpoint"
        written = LeaderEpochCache(path)
        written.assign_all(entries)
        written.save()
        cache = LeaderEpochCache.load(path)
    assert cache.entries == tuple(entries)
    starts = [start for _, start in entries] + [end]
    expected = UNDEFINED_EPOCH_END
    if entries and 0 <= epoch <= entries[-1][0]:
        slots = [slot for slot, (known, _) in enumerate(entries) if known <= epoch]
        expected = (
            EpochEndOffset(entries[slots[-1]][0], starts[slots[-1] + 1]) if slots else EpochEndOffset(epoch, starts[0])
        )
    assert cache.end_offset_for(epoch, end) == expected
    assert cache.epoch_for_offset(offset) == max((known for known, start in entries if start <= offset), default=None)


names = st.text("abcXYZ019._-", min_size=1, max_size=30)


@settings(max_examples=30)
@given(
    st.dictionaries(st.builds(TopicPartition, names, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1)),
    st.binary(min_size=16, max_size=16).filter(any),
)
def test_checkpoints_and_topic_ids_are_read_back(offsets, topic_id):
    """1.3, 1.4."""
    with TemporaryDirectory() as name:
        checkpoint = OffsetCheckpoint(Path(name) / "checkpoint")
        checkpoint.write(offsets)
        assert checkpoint.read() == offsets
        write_topic_id(Path(name), topic_id)
        assert read_topic_id(Path(name)) == topic_id
