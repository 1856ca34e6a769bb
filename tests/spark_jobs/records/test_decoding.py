"""Fetched batches as Arrow columns, against the codec that wrote them and the slow one of the log."""

import random
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from replog.client.records import decode_fetched, encode_batch
from replog.errors import ErrorCode, ReplogError
from replog.log.errors import InvalidRecord
from replog.log.formats.batch import HEADER, HEADER_SIZE, LOG_APPEND_TIME, parse_header, with_crc
from replog.log.formats.records import iterate_records
from replog.log.offsets import AbortedTransaction
from spark_jobs.records import decoding
from spark_jobs.records.decoding import BadRecords, arrow_batches, checked_batches
from tests.replog.client.consuming.test_read_committed import ONE_OF_EACH
from tests.spark_jobs.records.hostile import GOOD, HOSTILE, laid_out, spoiled

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
Given = tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]

RECORDS = st.lists(
    st.tuples(
        st.integers(0, 2**52),
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=300),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
    ),
    min_size=1,
    max_size=20,
)
END = 2**62
FAILING = BadRecords("t-3", fail=True)


def rows(
    buffer: bytes,
    first: int = 0,
    end: int = END,
    aborted: Sequence[AbortedTransaction] = (),
    headers: bool = True,
    bad: BadRecords = FAILING,
) -> list[dict[str, Any]]:
    checked = checked_batches(buffer, "t", 3, first, aborted)
    batches = (batch.drop_columns(["timestamp"]) for batch in arrow_batches(checked, end, bad, headers=headers))
    return [row for batch in batches for row in batch.to_pylist()]


def told(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row as the client tells a record."""
    headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
    return row["offset"], row["key"], row["value"], headers


def milliseconds(buffer: bytes) -> list[int]:
    table = pa.Table.from_batches(arrow_batches(checked_batches(buffer, "t", 3, 0), END, FAILING, headers=False))
    return [micros // 1000 for micros in table["timestamp"].cast(pa.int64()).to_pylist()]


@given(st.lists(st.tuples(RECORDS, st.sampled_from(CODECS)), min_size=1, max_size=4), st.data())
def test_every_record_comes_as_the_client_decodes_it(batches, data):
    log = laid_out([encode_batch(records, codec) for records, codec in batches], base_offset=7)
    total = sum(len(records) for records, _ in batches)
    first = data.draw(st.integers(0, 7 + total))
    end = data.draw(st.integers(first, 8 + total))
    wanted = [record for record in decode_fetched(log, "t", 3, first).records if record.offset < end]
    decoded = rows(log, first, end)
    assert [told(row) for row in decoded] == [(r.offset, r.key, r.value, r.headers) for r in wanted]
    assert [(row["topic"], row["partition"], row["timestampType"]) for row in decoded] == [("t", 3, 0)] * len(wanted)
    assert [{**row, "headers": None} for row in decoded] == [
        {**row, "headers": None} for row in rows(log, first, end, headers=False)
    ]
    assert checked_batches(log, "t", 3, first).next_offset == max(first, 7 + total)
    assert milliseconds(log) == [timestamp for records, _ in batches for timestamp, *_ in records]


def test_records_of_every_length_of_size_are_read():
    sizes = [5, 70, 9000, 1_100_000, 300, *[50] * 3000]
    records = [(n, None, bytes([n % 251]) * size, ()) for n, size in enumerate(sizes)]
    log = laid_out([encode_batch(records), encode_batch(records)])
    decoded = rows(log)
    assert [row["offset"] for row in decoded] == list(range(2 * len(sizes)))
    assert [row["value"] for row in decoded] == [value for _, _, value, _ in records] * 2


@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.parametrize("count", [2, 40, 2000])
def test_a_count_that_does_not_fill_its_batch_is_refused_though_more_records_follow(count, change):
    one = bytes([14, 0, 0, 0, 1, 2, 120, 0])
    log = laid_out([spoiled(one * count, count + change), spoiled(one * count, count)])
    with pytest.raises(ReplogError, match=f"{count + change} records do not fill the {8 * count} bytes"):
        rows(log)


def test_a_record_without_headers_has_null_not_an_empty_list():
    log = laid_out([encode_batch([(0, None, b"a", ()), (0, None, b"b", [("k", None)]), (0, None, None, ())])])
    assert [row["headers"] for row in rows(log)] == [None, [{"key": "k", "value": None}], None]
    assert [row["value"] for row in rows(log)] == [b"a", b"b", None]


def test_log_append_time_is_every_records_timestamp():
    batch = encode_batch([(1000, None, b"a", ()), (1010, None, b"b", ())])
    header = parse_header(batch)._replace(attributes=LOG_APPEND_TIME, max_timestamp=5000)
    stamped = HEADER.pack(*with_crc(header, batch[HEADER_SIZE:])) + bytes(batch[HEADER_SIZE:])
    assert milliseconds(stamped) == [5000, 5000]
    assert [row["timestampType"] for row in rows(stamped)] == [1, 1]


@pytest.mark.parametrize("aborted", [(), (AbortedTransaction(1, 0),)])
@pytest.mark.parametrize("first", range(9))
def test_control_batches_and_aborted_records_are_left_out(aborted, first):
    """LG-9, as the client."""
    wanted = decode_fetched(ONE_OF_EACH, "t", 3, first, aborted)
    assert [row["offset"] for row in rows(ONE_OF_EACH, first, END, aborted)] == [r.offset for r in wanted.records]
    assert checked_batches(ONE_OF_EACH, "t", 3, first, aborted).next_offset == wanted.next_offset


def test_much_comes_in_groups_of_bounded_size(monkeypatch):
    monkeypatch.setattr(decoding, "GROUP_BYTES", 1000)
    log = laid_out([encode_batch([(0, None, bytes(300), ())] * 2, codec) for codec in CODECS])
    groups = list(arrow_batches(checked_batches(log, "t", 0, 0), END, FAILING, headers=False))
    assert [group.num_rows for group in groups] == [2, 2, 2, 2, 2]
    monkeypatch.setattr(decoding, "GROUP_BYTES", 10_000)
    assert [
        group.num_rows for group in arrow_batches(checked_batches(log, "t", 0, 0), END, FAILING, headers=False)
    ] == [10]


def test_a_batch_that_compaction_has_emptied_has_no_rows():
    empty = HEADER.pack(
        *with_crc(parse_header(encode_batch([(0, None, b"x", ())]))._replace(length=49, records_count=0), b"")
    )
    log = laid_out([empty, encode_batch([(0, None, b"x", ())]), empty])
    assert [row["offset"] for row in rows(log)] == [1]
    assert rows(empty) == []
    assert checked_batches(log, "t", 0, 0).next_offset == 3


def test_a_flipped_bit_is_told_by_partition_and_offset():
    log = bytearray(laid_out([encode_batch([(0, None, b"x", ())]), encode_batch([(0, None, b"y", ())])], 40))
    log[-3] ^= 1
    with pytest.raises(ReplogError, match="t-3: batches from offset 41 on do not decode: the CRC") as caught:
        checked_batches(bytes(log), "t", 3, 40)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("name", HOSTILE)
def test_what_one_bad_client_writes_stops_nobody_who_goes_on_past_it(name, caplog, monkeypatch):
    """What is around it is read, and what is right of it; one warning tells the rest."""
    row = HOSTILE[name]
    monkeypatch.setattr(decoding, "GROUP_BYTES", 100_000)
    log = laid_out([GOOD, row.batch, GOOD])
    wanted = [0, *(1 + number for number in row.left), 1 + parse_header(row.batch).records_count]
    if row.reason:
        with pytest.raises(ReplogError, match=f"t-3: {row.reason}.*set the option failOnBadRecords to false") as caught:
            rows(log)
        assert caught.value.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_TIMESTAMP)
    else:
        assert [row["offset"] for row in rows(log)] == wanted
    assert [row["offset"] for row in rows(log, end=1)] == [0], "what was not asked for is no matter"
    assert [row["offset"] for row in rows(log, first=wanted[-1])] == wanted[-1:]
    for headers in (False, True):
        bad = BadRecords("t-3", fail=False)
        batches = list(arrow_batches(checked_batches(log, "t", 3, 0), END, bad, headers=headers))
        table = pa.Table.from_batches(batches)
        table.validate(full=True)
        if headers or "header" not in name:  # they are not looked at unless asked for
            assert table["offset"].to_pylist() == wanted
        assert table.filter(table["timestamp"].is_null())["offset"].to_pylist() == [1 + n for n in row.undated]
    bad.warn()
    told = [record.getMessage() for record in caplog.records]
    missing = parse_header(row.batch).records_count - len(row.left)
    assert len(told) == bool(row.reason or row.undated)
    assert not told or f"t-3: {missing + len(row.undated)} records were left out or have no timestamp" in told[0], told


def test_names_of_headers_that_are_not_utf8_are_read_as_kafkas_clients_read_them():
    row = rows(HOSTILE["a header whose key is not UTF-8"].batch)[0]
    assert row["headers"] == [{"key": "a\ufffd", "value": None}]


def test_headers_are_those_of_the_client_however_many_records_have_so_many():
    """Few records are gone through one by one, many at once."""
    few, many = 10, 300
    for count in (few, many):
        given = [
            (n, None, b"", [(f"{n}.{m}", None if m % 3 else b"v" * m) for m in range(n % 7)]) for n in range(count)
        ]
        batch = laid_out([encode_batch(given)])
        assert [told(row)[3] for row in rows(batch)] == [headers for _, _, _, headers in given]


@pytest.mark.parametrize("seed", range(300))
def test_whatever_is_flipped_is_refused_or_read_as_the_log_reads_it(seed):
    rng = random.Random(seed)
    given = [(1000 + n, b"k%d" % n, bytes(rng.randrange(90)), [("h", b"v")] * (n % 3)) for n in range(8)]
    batch = bytearray(encode_batch(given))
    for _ in range(rng.randint(1, 3)):
        batch[rng.randrange(HEADER_SIZE, len(batch))] = rng.randrange(256)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    try:
        wanted = [(r.offset, r.key, r.value, list(r.headers)) for r in iterate_records(batch, parse_header(batch))]
    except InvalidRecord as error:
        if "UTF-8" in error.message:
            return  # read as Kafka's clients read it
        wanted = None
    if wanted is not None and any(b <= a for (a, *_), (b, *_) in pairwise(wanted)):
        wanted = None  # offsets out of order: nobody but us looks
    try:
        decoded = [told(row) for row in rows(bytes(batch))]
    except ReplogError:
        decoded = None
    assert decoded == wanted
