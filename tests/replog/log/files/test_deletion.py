"""Files waiting for their deletion (LG-15, SG-14)."""

from replog.log.files.deletion import DeletedFiles, remove
from replog.log.segment import Segment


def test_all_files_of_a_segment_go_and_a_missing_one_is_no_error(tmp_path):
    """SG-14: renamed, and later removed, in the order log, index, time index; only the last suffix is added."""
    segment = Segment(tmp_path, 7)
    segment.create()
    segment.close()
    segment.time_index.path.unlink()
    deleted = DeletedFiles()
    deleted.set_aside(segment.paths)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"00000000000000000007{suffix}.deleted" for suffix in (".log", ".index", ".digest")}
    (tmp_path / "00000000000000000007.index.deleted").unlink()  # somebody was faster
    assert remove(deleted.take_expired(1000, 60_000)) == 0
    assert remove(deleted.take_expired(61_000, 60_000)) == 3
    assert not list(tmp_path.iterdir())


def test_a_file_set_aside_again_replaces_what_waits_under_its_name(tmp_path):
    """SG-14: a segment of the same base may be deleted twice within the delay."""
    deleted = DeletedFiles()
    path = tmp_path / "0.log"
    for content in (b"old", b"new"):
        path.write_bytes(content)
        deleted.set_aside([path])
    assert (tmp_path / "0.log.deleted").read_bytes() == b"new"
    remove(deleted.take_expired(0, 0))
    remove(deleted.take_expired(0, 0))
    assert not list(tmp_path.iterdir())
