"""What a broker notes of the metadata before it goes by them (CT-24)."""

from random import Random

import pytest
from structlog.testing import capture_logs

from replog.common.backoff import Backoff
from replog.log.directories.identity import Position, read_position, write_position
from replog.log.errors import LogStorageError, NoRoom
from replog.server.broker.control import newest_metadata
from replog.server.broker.control.newest_metadata import NewestMetadata

THEN, NOW = Position("c", b"h" * 16, 4), Position("c", b"h" * 16, 5)


@pytest.fixture
def directories(tmp_path):
    made = [tmp_path / "a", tmp_path / "b"]
    for directory in made:
        directory.mkdir()
        write_position(directory, THEN)
    return made


async def test_ct_24_what_finds_no_room_is_noted_once_there_is_some_and_not_before_it_is_gone_by(
    directories, monkeypatch
):
    """CT-24."""
    known, tried = NewestMetadata(directories, Backoff(Random(1), base_ms=1), lambda _: None), []

    def written(directory, position):
        tried.append(known.position)
        if len(tried) <= 4:  # two rounds
            raise NoRoom("the disk is full")
        write_position(directory, position)

    monkeypatch.setattr(newest_metadata, "write_position", written)
    with capture_logs() as lines:
        await known.note(NOW)
    assert len(lines) == 1, "a disk that is full for an hour is one line"
    assert tried == [THEN] * 6, "it is not told before it is on the disks"
    assert [read_position(directory) for directory in directories] == [NOW, NOW]
    assert known.position == NOW


async def test_ct_24_one_directory_that_takes_it_is_enough_and_none_is_not(directories, monkeypatch):
    """CT-24."""
    dead, failed = set(directories[:1]), []

    def written(directory, position):
        if directory in dead:
            raise LogStorageError(f"{directory} is dead", of_the_disk=True)
        write_position(directory, position)

    monkeypatch.setattr(newest_metadata, "write_position", written)
    known = NewestMetadata(directories, Backoff(Random(1)), failed.append)
    await known.note(NOW)
    assert (known.position, len(failed), read_position(directories[1])) == (NOW, 1, NOW)
    dead |= {*directories}
    with pytest.raises(LogStorageError):
        await known.note(NOW._replace(version=6))
    assert known.position == NOW
