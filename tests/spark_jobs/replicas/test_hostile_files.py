"""Files that no broker writes: little memory, no waiting, no work that grows with the square of what lies."""

import json
import struct
import subprocess
import sys
from dataclasses import replace

import pytest

from replog.log.formats.batch import HEADER_SIZE
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.faults import FileFault
from spark_jobs.replicas.files import ReadCount
from spark_jobs.replicas.index_check import index_points
from tests.damage.vocabulary import seal
from tests.spark_jobs.replicas.hostile import NAME, small

BATCHES = 1000


@pytest.mark.processes
def test_hostile_files_are_told_in_little_memory(tmp_path):
    command = [sys.executable, "-m", "tests.spark_jobs.replicas.hostile", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    by_case: dict[str, dict[str, list[str]]] = json.loads(done.stdout)
    classes = {case: {kind for kinds in told.values() for kind in kinds} for case, told in by_case.items()}
    for case in ("large_indexes", "pipes", "devices", "links_to_themselves"):
        assert classes[case] <= {"UNREADABLE", "sound"}, (case, by_case[case])
        assert by_case[case]["batches"] == by_case[case]["index blocks"] == ["UNREADABLE"], (case, by_case[case])
    for case in ("a_pipe_for_marks", "offsets_beyond_their_end", "one_segment_twice"):
        assert by_case[case] == {"describe": ["UNREADABLE"]}, case
    for case in ("zeros", "one_batch_of_256_mib", "offsets_at_their_end", "offsets_out_of_64_bits"):
        assert "BIT_ROT" in by_case[case]["blocks"], (case, by_case[case])
    assert "INDEX_LIE" in by_case["nothing_but_lies"]["index blocks"], by_case["nothing_but_lies"]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_every_header_is_read_a_few_times_however_many_entries_lie(suffix, tmp_path):
    """Entries that point into batches, ever farther; and entries of timestamps, without an offset index."""
    (tmp_path / "t-0").mkdir()
    small(tmp_path / "t-0", count=BATCHES)
    seal(tmp_path / "t-0" / f"{NAME}.log")
    entries = [
        struct.pack(">ii", 2 * n + 1, n * HEADER_SIZE + 7) if suffix == ".index" else struct.pack(">qi", n + 1, n)
        for n in range(1, BATCHES)
    ]
    (tmp_path / "t-0" / (NAME + suffix)).write_bytes(b"".join(entries))
    (files,) = DirectoryStore(1, tmp_path).partitions(frozenset())
    count = ReadCount()
    items = list(index_points(replace(files.segments[0], count=count), 0, []))
    assert {item.fault for item in items if isinstance(item, FileFault)} == {"INDEX_LIE"}
    assert count.bytes < 8 * BATCHES * HEADER_SIZE, count.bytes / (BATCHES * HEADER_SIZE)
