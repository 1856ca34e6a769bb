"""What any replica may have in its indexes is not called a lie (11): see also tests/damage."""

import struct
from pathlib import Path

import pytest

from replog.log.directories.identity import CLEAN_SHUTDOWN
from replog.log_tools.checker.findings import MAX_OF_A_KIND, Kind, capped
from tests.replog.log_tools.verify.directories import faults, file, findings_in, notes


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_preallocated_space_is_normal_on_the_newest_segment_alone(data, flights, suffix):
    """IX-2, IX-6, S-W-I8"""
    newest, older = file(flights, 34, suffix), file(flights, 22, suffix)
    newest.write_bytes(bytes(12 << 20))
    assert faults(data) == []
    assert notes(data) == [("PREALLOCATED", newest.name, 0, 34)]
    size = older.stat().st_size
    older.write_bytes(older.read_bytes() + bytes(240))
    assert faults(data) == [("NOT_TRIMMED", older.name, size, 22)]


def test_an_index_ahead_of_the_log_is_normal_after_an_unclean_stop(data, flights):
    path = file(flights, 34, "index")
    path.write_bytes(struct.pack(">ii", 50, 9999))
    file(flights, 34, "digest").unlink()
    assert faults(data) == [("INDEX_BEYOND", path.name, 0, 84)]
    (data / CLEAN_SHUTDOWN).unlink()
    assert faults(data) == []
    assert notes(data) == [("INDEX_AHEAD", path.name, 0, 84)]


def test_a_file_of_garbage_is_told_in_few_words(data, flights):
    file(flights, 22, "index").write_bytes(bytes(range(256)) * 100)
    findings = findings_in(data)
    assert 0 < len(findings) <= 20
    assert {finding.file.name for finding in findings} == {f"{22:020d}.index"}


def test_an_index_larger_than_a_segment_can_need_is_not_read(data, flights):
    path = file(flights, 22, "timeindex")
    with path.open("r+b") as index:
        index.truncate((64 << 20) + 1)
    (finding,) = findings_in(data)
    assert (finding.kind, finding.file) == (Kind.UNREADABLE, flights)
    assert f".timeindex has {(64 << 20) + 1} bytes, more than" in finding.found


def test_of_one_kind_in_one_file_so_much_is_listed_and_the_others_are_counted():
    listed = list(capped(Kind.HOLE.at(Path(name), "x") for name in ["a", "b"] for _ in range(MAX_OF_A_KIND + 7)))
    assert len(listed) == 2 * (MAX_OF_A_KIND + 1)
    assert [(finding.file.name, finding.found) for finding in listed[-2:]] == [
        ("a", "and 7 more of this kind"),
        ("b", "and 7 more of this kind"),
    ]
