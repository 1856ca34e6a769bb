"""Walks over the batches of a file, whatever way they lie across the windows that it is read by."""

import os
import random
from pathlib import Path

import pytest

from replog.log.formats.batch import HEADER_SIZE, BatchHeader, iterate_batches
from replog.log.formats.segment_file import HEADER_WINDOW, LocalFile, Vanished, read_headers
from replog.log.formats.walk import WINDOW, LogFile
from tests.replog.log.batches import leader_batch


def written(path: Path, *sizes: int) -> tuple[int, bytes]:
    """A file of batches with values of these sizes, open for reading."""
    data = b"".join(leader_batch(offset, 0, random.randbytes(size)) for offset, size in enumerate(sizes))
    path.write_bytes(data)
    return os.open(path, os.O_RDONLY), data


def walked(fd: int, position: int = 0, window: int = WINDOW) -> list[tuple[int, BatchHeader]]:
    """The batches, all of them with the bytes that were written; a break would not fit."""
    log = LogFile(LocalFile(fd), window)
    batches = []
    for at, header in log.walk(position):
        assert log.crc(at, header) == header.crc
        assert log.read(at, header.size) == os.pread(fd, header.size, at)
        batches.append((at, header))
    return batches


@pytest.mark.parametrize(
    "sizes",
    [
        [10] * 200,
        [HEADER_WINDOW, 10, 10, 5 * HEADER_WINDOW, 10, 10],
        [WINDOW - 100, 10, 10, 2 * WINDOW, 10, WINDOW, 16384] + [16384] * 200,
    ],
)
def test_every_batch_is_found_with_its_bytes(tmp_path, sizes):
    fd, data = written(tmp_path / "log", *sizes)
    expected = list(iterate_batches(data))
    assert list(read_headers(fd, len(data), 0)) == walked(fd) == walked(fd, window=HEADER_SIZE) == expected
    position = expected[3][0]
    assert list(read_headers(fd, len(data), position)) == walked(fd, position) == expected[3:]
    os.close(fd)


@pytest.mark.parametrize("cut", [1, HEADER_SIZE, 16384])
def test_a_walk_ends_before_a_partial_batch(tmp_path, cut):
    fd, data = written(tmp_path / "log", 16384, 16384, 16384)
    end = len(data) - cut
    os.truncate(tmp_path / "log", end)
    first, second, partial = LogFile(LocalFile(fd)).walk()
    assert list(read_headers(fd, end, 0)) == [first, second]
    assert (partial.position, partial.resume, partial.cut_short) == (second[0] + second[1].size, None, True)
    os.close(fd)


def test_bytes_of_a_file_that_was_cut_meanwhile_are_never_those_of_another_batch(tmp_path):
    """The window is used again: what an earlier batch has left in it must not pass for bytes of the file."""
    fd, data = written(tmp_path / "log", *[16384] * 100)
    log = LogFile(LocalFile(fd))
    walk = log.walk()
    assert log.crc(*next(walk))
    os.truncate(tmp_path / "log", 70 * (len(data) // 100) + HEADER_SIZE + 10)
    whole = 1
    with pytest.raises(Vanished, match="the log was cut"):
        for at, header in walk:
            assert log.crc(at, header) == header.crc
            whole += 1
    assert WINDOW // 16500 <= whole <= 70
    os.close(fd)
