"""A file and its tail in memory have the same bytes, whatever was written and cut; the memory is bounded."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from replog.log.files.open_files import OPEN_FILES, OpenFile, OpenFiles
from replog.log.files.tail import FILE_BUFFERS, FILE_BYTES, Tail, Tails
from replog.log.formats.batch import HEADER_SIZE
from replog.log.formats.validation import with_head


@pytest.fixture
def files() -> Iterator[OpenFiles]:
    token = OPEN_FILES.set(OpenFiles(8))
    yield OPEN_FILES.get()
    OPEN_FILES.reset(token)


@pytest.fixture
def file(files, tmp_path) -> OpenFile:
    made = OpenFile(tmp_path / "log")
    made.create()
    return made


@pytest.mark.parametrize("seed", range(20))
def test_what_is_read_is_what_the_file_has(file, seed):
    rng, size, from_memory = random.Random(seed), 0, 0
    for _ in range(300):
        match rng.choice("aaaawtr" + "r" * 5):
            case "a":
                data = rng.randbytes(rng.randint(1, 50))
                file.write_and_keep(rng.choice((data, bytearray(data), memoryview(data))), size)
                size += len(data)
            case "w":  # as a follower writes
                size += file.write([rng.randbytes(20)], size, promised=True)
            case "t" if rng.random() < 0.2:
                size = rng.randint(0, size)
                file.truncate(size)
            case _ if size:
                position = rng.choice((rng.randrange(size), max(0, size - rng.randint(1, 200))))
                length = rng.randint(1, size - position)
                from_memory += file._tail is not None and file._tail.read(position, length) is not None
                assert file.read(position, length) == Path(file.path).read_bytes()[position : position + length]
    assert from_memory > 10


def test_a_read_of_one_buffer_copies_nothing_and_needs_no_file(file, tmp_path):
    data = os.urandom(100)
    file.write_and_keep(data, 0)
    file.write_and_keep(b"more", 100)
    (tmp_path / "log").write_bytes(b"")
    assert file.read(0, 100) is data
    part = file.read(20, 30)
    assert isinstance(part, memoryview)
    assert part.obj is data
    assert file.read(90, 14) == data[90:] + b"more"
    assert file.read(90, 15) == b"", "not all of it is in memory"
    file.close()
    assert file.read(0, 100) == b"", "a closed file has no tail"


def test_the_tails_of_all_files_are_bounded_and_the_least_recent_goes_first():
    tails = Tails(1000)
    first, second, third = (Tail(tails) for _ in range(3))
    first.add(bytes(400), 0)
    second.add(bytes(400), 0)
    first.add(bytes(100), 400)
    third.add(bytes(300), 0)
    assert [tail.size for tail in (first, second, third)] == [500, 0, 300]
    first.add(bytes(50), 7)
    assert (tails.size, first.read(0, 50), first.read(7, 50)) == (350, None, bytes(50)), "it goes on elsewhere"
    first.add(bytes(1001), 57)
    assert tails.size == 0


def test_the_tail_of_one_file_is_bounded_in_bytes_and_in_buffers():
    tail = Tail(Tails())
    for number in range(FILE_BUFFERS + 10):
        tail.add(b"x", number)
    assert tail.size == FILE_BUFFERS
    for number in range(10):
        tail.add(bytes(FILE_BYTES // 4), FILE_BUFFERS + 10 + number * FILE_BYTES // 4)
    assert tail.size == FILE_BYTES
    tail.add(bytes(FILE_BYTES + 1), FILE_BUFFERS + 10 + 10 * FILE_BYTES // 4)
    assert tail.size == 0


def test_a_batch_is_stamped_in_place_if_it_may_be_and_if_it_keeps_no_large_message_in_memory():
    head, message = bytes(range(HEADER_SIZE)), bytearray(os.urandom(300))
    large, small = memoryview(message)[100:], memoryview(message)[:100]
    for batch, in_place in ((large, True), (small, False), (bytes(large), False)):
        after = bytes(batch[HEADER_SIZE:])
        made = with_head(head, batch)
        assert bytes(made) == head + after
        assert (made is batch or bytes(batch[:HEADER_SIZE]) == head) == in_place
