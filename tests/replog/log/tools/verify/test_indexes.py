"""What any replica may have in its indexes is not called a lie (11): see also tests/damage."""

import struct

import pytest

from replog.log.directories.clean_shutdown import CLEAN_SHUTDOWN
from tests.replog.log.tools.verify.directories import faults, file, findings_in, notes


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
