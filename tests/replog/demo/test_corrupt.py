"""The flipped byte is in a committed batch's payload, and nowhere else."""

from pathlib import Path

import pytest

from replog.client.records import encode_batch
from replog.demo.corrupt import flip_payload_bit
from replog.log.formats.batch import HEADER, HEADER_SIZE, iterate_batches, parse_header, validate_crc


def _batch(base_offset: int, values: list[bytes]) -> bytes:
    data = bytearray(encode_batch([(1000, None, value, ()) for value in values]))
    header = parse_header(data)._replace(base_offset=base_offset, leader_epoch=0)
    HEADER.pack_into(data, 0, *header)
    return bytes(data)


@pytest.fixture
def replica(tmp_path: Path) -> Path:
    """Two segments of five batches of two records each."""
    for base in (0, 10):
        segment = b"".join(_batch(base + 2 * n, [b"first", b"second"]) for n in range(5))
        (tmp_path / f"{base:020d}.log").write_bytes(segment)
    return tmp_path


def test_exactly_one_batch_fails_its_crc_and_it_is_the_one_reported(replica):
    before = {path: path.read_bytes() for path in replica.iterdir()}
    done = flip_payload_bit(replica, below_offset=20)
    after = done.path.read_bytes()
    assert [n for n, pair in enumerate(zip(before[done.path], after, strict=True)) if pair[0] != pair[1]] == [
        done.position
    ]
    assert all(path.read_bytes() == content for path, content in before.items() if path != done.path)
    bad = [header for at, header in iterate_batches(after) if not validate_crc(after, at, header)]
    assert [(header.base_offset, header.last_offset) for header in bad] == [(done.base_offset, done.last_offset)]


def test_the_byte_is_past_the_header_so_the_batch_still_parses(replica):
    done = flip_payload_bit(replica, below_offset=20)
    content = done.path.read_bytes()
    starts = [at for at, header in iterate_batches(content) if at <= done.position < at + header.size]
    assert done.position >= starts[0] + HEADER_SIZE
    assert sum(1 for _ in iterate_batches(content)) == 5


def test_only_batches_wholly_below_the_high_watermark_are_touched(replica):
    done = flip_payload_bit(replica, below_offset=3)
    assert (done.base_offset, done.last_offset) == (0, 1)


def test_a_replica_without_a_committed_batch_is_refused(replica):
    with pytest.raises(ValueError, match="no batch with a payload below offset 1"):
        flip_payload_bit(replica, below_offset=1)
