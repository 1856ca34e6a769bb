"""Walks over the batches of a file, whatever way they lie across the windows that it is read by."""

import os
import random
from pathlib import Path

import pytest

from replog.log.batch import HEADER_SIZE, iterate_batches, validate_crc
from replog.log.errors import CorruptRecord
from replog.log.scan import DATA_WINDOW, HEADER_WINDOW, BatchReader
from tests.replog.log.batches import leader_batch


def written(path: Path, *sizes: int) -> tuple[int, bytes]:
    """A file of batches with values of these sizes, open for reading."""
    data = b"".join(leader_batch(offset, 0, random.randbytes(size)) for offset, size in enumerate(sizes))
    path.write_bytes(data)
    return os.open(path, os.O_RDONLY), data


@pytest.mark.parametrize(
    "sizes",
    [
        [10] * 200,
        [HEADER_WINDOW, 10, 10, 5 * HEADER_WINDOW, 10, 10],
        [DATA_WINDOW - 100, 10, 10, 2 * DATA_WINDOW, 10, DATA_WINDOW, 16384] + [16384] * 200,
    ],
)
def test_every_batch_is_found_with_its_bytes(tmp_path: Path, sizes: list[int]) -> None:
    fd, data = written(tmp_path / "log", *sizes)
    expected = list(iterate_batches(data))
    assert list(BatchReader(fd, len(data)).headers(0)) == expected
    found = [
        (at, header) for at, header, view in BatchReader(fd, len(data)).batches(0) if validate_crc(view, 0, header)
    ]
    assert found == expected
    position = expected[3][0]
    assert list(BatchReader(fd, len(data)).headers(position)) == expected[3:]
    assert [(at, header) for at, header, _ in BatchReader(fd, len(data)).batches(position)] == expected[3:]
    os.close(fd)


@pytest.mark.parametrize("cut", [1, HEADER_SIZE, 16384])
def test_a_walk_ends_before_a_partial_batch(tmp_path: Path, cut: int) -> None:
    fd, data = written(tmp_path / "log", 16384, 16384, 16384)
    end = len(data) - cut
    assert len(list(BatchReader(fd, end).headers(0))) == len(list(BatchReader(fd, end).batches(0))) == 2
    os.close(fd)


def test_bytes_of_a_file_that_was_cut_meanwhile_are_never_those_of_another_batch(tmp_path: Path) -> None:
    """The window is used again: what an earlier batch has left in it must not pass for bytes of the file."""
    fd, data = written(tmp_path / "log", *[16384] * 100)
    walk = BatchReader(fd, len(data)).batches(0)
    first, header, view = next(walk)
    assert first == 0
    assert validate_crc(view, 0, header)
    os.truncate(tmp_path / "log", 70 * (len(data) // 100) + HEADER_SIZE + 10)
    whole = 1
    with pytest.raises(CorruptRecord, match="too few"):
        for _, header, view in walk:
            whole += validate_crc(view, 0, header)
    assert whole == 70
    os.close(fd)
