"""Index entries that lie are found; what any replica may have is not called a lie (11)."""

import re
import struct
from pathlib import Path

import pytest

from replog.log.clean_shutdown import CLEAN_SHUTDOWN
from tests.replog.log.batches import client_batch
from tests.replog.log.verify.directories import faults, file, findings_in, flip, notes, patch

# Segment 22: offset entries (24, 160) (27, 316) (31, 476), time entries for 23, 27, 31 and the last, digests for
# 24, 27, 31, 33.
INDEX, TIMES, DIGESTS, TXN = (f"{22:020d}.{suffix}" for suffix in ("index", "timeindex", "digest", "txnindex"))


@pytest.mark.parametrize(
    ("what", "position", "content", "expected"),
    [
        ("no batch there", 4, struct.pack(">i", 161), ("INDEX_ENTRY", INDEX, 0, 24)),
        ("a batch before reaches the offset", 0, struct.pack(">ii", 1, 238), ("INDEX_ENTRY", INDEX, 0, 23)),
        ("inside of a batch", 8, struct.pack(">i", 4), ("INDEX_ENTRY", INDEX, 8, 26)),
        ("offsets go back", 8, struct.pack(">i", 1), ("INDEX_ORDER", INDEX, 8, None)),
        ("positions go back", 12, struct.pack(">i", 69), ("INDEX_ORDER", INDEX, 8, None)),
        ("too high, but for its neighbour", 4, struct.pack(">i", 556), ("INDEX_ORDER", INDEX, 0, None)),
        ("negative", 0, struct.pack(">i", -1), ("INDEX_ORDER", INDEX, 0, None)),
        ("beyond the end", 16, struct.pack(">ii", 50, 9999), ("INDEX_BEYOND", INDEX, 16, None)),
    ],
)
def test_a_wrong_offset_entry(
    data: Path, flights: Path, what: str, position: int, content: bytes, expected: tuple[str, str, int, int | None]
) -> None:
    """IX-10, IX-11, SG-2"""
    patch(file(flights, 22, "index"), position, content)
    (flights / DIGESTS).unlink()
    assert faults(data) == [expected], findings_in(data)


@pytest.mark.parametrize(
    ("what", "position", "content", "expected"),
    [
        ("not the timestamp of its batch", 0, struct.pack(">q", 30_002), ("INDEX_ENTRY", TIMES, 0, 23)),
        ("a record of the batch before", 20, struct.pack(">i", 3), ("INDEX_ENTRY", TIMES, 12, 25)),
        ("timestamps go back", 12, struct.pack(">q", 5), ("INDEX_ORDER", TIMES, 12, None)),
        ("offsets go back", 20, struct.pack(">i", 0), ("INDEX_ORDER", TIMES, 12, None)),
        ("beyond the end", 44, struct.pack(">i", 99), ("INDEX_BEYOND", TIMES, 36, None)),
    ],
)
def test_a_wrong_time_entry(
    data: Path, flights: Path, what: str, position: int, content: bytes, expected: tuple[str, str, int, int | None]
) -> None:
    """IX-15, IX-16"""
    patch(file(flights, 22, "timeindex"), position, content)
    (flights / DIGESTS).unlink()
    assert faults(data) == [expected], findings_in(data)


def test_a_time_entry_may_name_a_record_of_its_batch_where_kafka_wrote_it(data: Path, flights: Path) -> None:
    """Leaders of Kafka 3.3 do; we name the last."""
    patch(file(flights, 22, "timeindex"), 20, struct.pack(">i", 4))
    assert ("INDEX_ENTRY", TIMES, 12, 26) in faults(data)
    (flights / DIGESTS).unlink()
    assert faults(data) == []


def test_an_earlier_batch_with_a_greater_timestamp(data: Path, flights: Path) -> None:
    """⟨40 001, 29⟩ would hide nothing, ⟨1000, 25⟩ hides batch 23 of 30 003."""
    file(flights, 22, "timeindex").write_bytes(struct.pack(">qi", 1000, 3))
    (flights / DIGESTS).unlink()
    assert faults(data) == [("INDEX_ENTRY", TIMES, 0, 25)]


def test_a_wrong_digest(data: Path, flights: Path) -> None:
    """One changed entry is one finding; a changed batch under a right CRC puts all behind it off, and is one too."""
    flip(file(flights, 22, "digest"), 12 + 9)
    assert faults(data) == [("DIGEST", DIGESTS, 12, 27)]


def test_a_batch_that_was_replaced_by_a_sound_one_is_told_by_the_digests(data: Path, flights: Path) -> None:
    log = file(flights, 22, "log")
    other = bytearray(client_batch(b"Z2", b"y", timestamps=[40_002, 3]))
    content = log.read_bytes()
    other[:16] = content[476:492]
    assert len(other) == 80
    log.write_bytes(content[:476] + other + content[556:])
    assert faults(data) == [("DIGEST", DIGESTS, 24, 31)]


def test_what_must_lie_beside_an_offset_entry(data: Path, flights: Path) -> None:
    """Divergence 3: in directories of ours alone."""
    path = file(flights, 22, "digest")
    content = path.read_bytes()
    path.write_bytes(content[:12] + content[24:])
    assert faults(data) == [("DIGEST", DIGESTS, None, 27)]
    path.write_bytes(content[:36])
    assert faults(data) == [("DIGEST", DIGESTS, None, None)]
    path.write_bytes(content)
    times = file(flights, 22, "timeindex")
    times.write_bytes(times.read_bytes()[12:])
    assert faults(data) == [("INDEX_ENTRY", TIMES, None, 24)]


@pytest.mark.parametrize("suffix", ["index", "timeindex", "digest", "txnindex"])
def test_part_of_an_entry(data: Path, flights: Path, suffix: str) -> None:
    """S-W-D10"""
    path = file(flights, 22, suffix)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"abc")
    assert faults(data) == [("INDEX_SHAPE", path.name, size, None)]


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_preallocated_space_is_normal_on_the_newest_segment_alone(data: Path, flights: Path, suffix: str) -> None:
    """IX-2, IX-6, S-W-I8"""
    newest, older = file(flights, 34, suffix), file(flights, 22, suffix)
    newest.write_bytes(bytes(12 << 20))
    assert faults(data) == []
    assert notes(data) == [("PREALLOCATED", newest.name, 0, None)]
    size = older.stat().st_size
    older.write_bytes(older.read_bytes() + bytes(240))
    assert faults(data) == [("NOT_TRIMMED", older.name, size, None)]


def test_an_index_ahead_of_the_log_is_normal_after_an_unclean_stop(data: Path, flights: Path) -> None:
    path = file(flights, 34, "index")
    path.write_bytes(struct.pack(">ii", 50, 9999))
    file(flights, 34, "digest").unlink()
    assert faults(data) == [("INDEX_BEYOND", path.name, 0, None)]
    (data / CLEAN_SHUTDOWN).unlink()
    assert faults(data) == []
    assert notes(data) == [("INDEX_AHEAD", path.name, 0, None)]


def test_a_file_of_garbage_is_told_in_few_words(data: Path, flights: Path) -> None:
    file(flights, 22, "index").write_bytes(bytes(range(256)) * 100)
    found = [finding for finding in findings_in(data) if finding.kind.name == "INDEX_ORDER"]
    assert len(found) == 21
    assert re.fullmatch(r"and 31\d\d more of this kind", found[-1].found)  # of 3200, few of which look sound


@pytest.mark.parametrize(
    ("what", "position", "content"),
    [
        ("another producer", 2, struct.pack(">q", 99)),
        ("another first offset", 10, struct.pack(">q", 15)),
        ("no marker there", 18, struct.pack(">q", 23)),
        ("another stable offset", 26, struct.pack(">q", 20)),
    ],
)
def test_a_wrong_transaction_entry(data: Path, flights: Path, what: str, position: int, content: bytes) -> None:
    """IX-19, PS-6"""
    patch(file(flights, 22, "txnindex"), position, content)
    assert {(kind, name) for kind, name, *_ in faults(data)} == {("TRANSACTION_INDEX", TXN)}, findings_in(data)


def test_a_transaction_that_is_not_indexed(data: Path, flights: Path) -> None:
    """IX-19"""
    file(flights, 22, "txnindex").unlink()
    assert faults(data) == [("TRANSACTION_INDEX", TXN, None, 24)]
    assert faults(data, compacted=True) == []  # the cleaner drops what it cleaned


def test_a_transaction_index_of_another_version(data: Path, flights: Path) -> None:
    patch(file(flights, 22, "txnindex"), 0, struct.pack(">h", 3))
    assert ("INDEX_ORDER", TXN, 0, None) in faults(data)
