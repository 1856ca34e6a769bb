"""Checkpoint files (1.3)."""

import pytest

from replog.log.errors import LogStorageError
from replog.log.formats.checkpoint import DamagedCheckpoint, OffsetCheckpoint
from replog.topic import TopicPartition

T0 = TopicPartition("t", 0)


EMPTY = ["", "0", "0\n", "0\n0\n", "0\n0"]
ONE_ENTRY = ["0\n1\nt 0 5\n", "0\n1\nt 0 5", "0\n1\nt\t0   5\n"]


@pytest.mark.parametrize("content", [*EMPTY, *ONE_ENTRY])
def test_no_entry_and_one_in_several_spellings(tmp_path, content):
    path = tmp_path / "checkpoint"
    assert OffsetCheckpoint(path).read() == {}, "there is no file"
    path.write_text(content)
    assert OffsetCheckpoint(path).read() == ({T0: 5} if content in ONE_ENTRY else {})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"1\n0\n", "version '1'"),
        (b"x\n0\n", "version 'x'"),
        (b"0\nmany\n", "'many' is not a 64-bit number"),
        (b"0\n-1\n", "'-1' is not a 64-bit number"),
        (b"0\n0x1\nt 0 5\n", "'0x1' is not a 64-bit number"),
        ("0\n²\nt 0 5\n".encode(), "'²' is not a 64-bit number"),
        (b"0\n" + b"9" * 5000 + b"\nt 0 5\n", "is not a 64-bit number"),  # more than Python turns into a number
        (b"0\n2\nt 0 5\n", "announces 2 entries and has 1"),
        (b"0\n1\nt 0 5\nt 1 5\n", "announces 1 entries and has 2"),
        (b"0\n1\nt 0\n", "has not 3 fields"),
        (b"0\n1\nt 0 5 6\n", "has not 3 fields"),
        (b"0\n1\nt 0 five\n", "'five' is not"),
        (b"0\n1\nt 0 -5\n", "'-5' is not"),
        (b"0\n1\nt -1 5\n", "'-1' is not"),
        (b"0\n1\nt 0 99999999999999999999\n", "is not a 64-bit"),
        (b"\xff\xfe", "UTF-8"),
        (bytes(40), "version"),
    ],
)
def test_damage_is_named(tmp_path, content, said):
    path = tmp_path / "checkpoint"
    path.write_bytes(content)
    with pytest.raises(DamagedCheckpoint, match=said) as caught:
        OffsetCheckpoint(path).read()
    assert str(path) in str(caught.value)


def test_what_is_written_is_read_back_and_no_temporary_file_stays(tmp_path):
    checkpoint = OffsetCheckpoint(tmp_path / "checkpoint")
    offsets = {TopicPartition("b", 1): 2**63 - 1, TopicPartition("a-b", 0): 0, T0: 7}
    checkpoint.write({T0: 3})
    checkpoint.write(offsets)
    assert checkpoint.path.read_text() == "0\n3\na-b 0 0\nb 1 9223372036854775807\nt 0 7\n"
    assert checkpoint.read() == offsets
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_offsets_that_were_written_already_are_not_written_again(tmp_path):
    checkpoint = OffsetCheckpoint(tmp_path / "checkpoint")
    offsets = {T0: 5}
    checkpoint.write(offsets)
    first = checkpoint.path.stat().st_ino
    checkpoint.write(dict(offsets))
    assert checkpoint.path.stat().st_ino == first
    offsets[T0] = 6
    checkpoint.write(offsets)
    assert checkpoint.read() == offsets


def test_offsets_that_could_not_be_written_are_written_next_time(tmp_path):
    checkpoint = OffsetCheckpoint(tmp_path / "disk" / "checkpoint")
    with pytest.raises(LogStorageError):
        checkpoint.write({T0: 5})
    checkpoint.path.parent.mkdir()
    checkpoint.write({T0: 5})
    assert checkpoint.read() == {T0: 5}
