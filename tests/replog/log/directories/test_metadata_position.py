import pytest

from replog.errors import ReplogError
from replog.log.directories.identity import METADATA_POSITION, Position, read_position, write_position

POSITION = Position("cluster", b"\x01\xff" * 8, 2**62)


def test_what_was_written_is_read_and_a_directory_without_it_knows_nothing(tmp_path):
    assert read_position(tmp_path) == Position()
    write_position(tmp_path, POSITION)
    assert read_position(tmp_path) == POSITION
    write_position(tmp_path, Position("cluster", b"", 7))
    assert read_position(tmp_path) == Position("cluster", b"", 7)


@pytest.mark.parametrize("damage", ["metadata.version", "history.id", "cluster.id"])
def test_a_damaged_file_is_no_excuse_to_know_nothing(tmp_path, damage):
    write_position(tmp_path, POSITION)
    path = tmp_path / METADATA_POSITION
    path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith(damage)))
    with pytest.raises(ReplogError, match="is damaged"):
        read_position(tmp_path)
