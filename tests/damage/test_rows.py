"""Each row of `rows`: a start that recovers, `log verify` and the audit, of the same damage to the same files."""

import random
import re
import shutil
from pathlib import Path

import pytest

from replog.log_tools.checker.findings import Kind, Severity
from replog.log_tools.checker.indexes import SUFFIXES
from spark_jobs.replicas.blocks import Cells, Producing, check_blocks
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.faults import CLASSES, FileFault
from spark_jobs.replicas.index_check import index_points
from spark_jobs.replicas.producers import producer_faults
from spark_jobs.replicas.segment_check import check_segment
from tests.damage.rows import ROWS, Row
from tests.replog.log.batches import files_of, open_log
from tests.replog.log_tools.verify.directories import FLIGHTS, SETTINGS, findings_in, write_log_directory
from tests.spark_jobs.replicas.ways import differences

PRODUCERS = (".txnindex", ".snapshot")  # which level deep alone looks at
END = 38


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log_directory(tmp_path_factory.mktemp("mixed") / "data").parent


@pytest.fixture(params=ROWS, ids=[row.name for row in ROWS])
def row(request: pytest.FixtureRequest) -> Row:
    row: Row = request.param
    return row


@pytest.fixture
def data(row: Row, mixed: Path, tmp_path: Path) -> Path:
    """A log directory whose broker stopped in order, damaged since."""
    directory = shutil.copytree(mixed, tmp_path / "data")
    row.damage(directory / FLIGHTS.directory_name)
    return directory


def places(data: Path) -> str:
    """KIND file@position offset of each fault that `log verify` finds in the partition."""
    told = []
    for finding in findings_in(data, deep=True):
        if finding.severity is Severity.FAULT and finding.file.parent.parent == data:
            position = "" if finding.position is None else f"@{finding.position}"
            offset = "" if finding.offset is None else f" {finding.offset}"
            told.append(f"{finding.kind.name} {short(finding.file.name)}{position}{offset}")
    return "; ".join(told)


def audited(found: str) -> str:
    """What the audit makes of that: CLASS file first-last."""
    told: dict[str, None] = {}
    for kind, place, *offsets in (fault.split(" ") for fault in found.split("; ") if fault):
        name, _, _ = place.partition("@")
        first, _, last = "".join(offsets).partition("-")
        if Kind[kind] in CLASSES and name.endswith((".log", *SUFFIXES, *PRODUCERS)) and first:
            told[f"{CLASSES[Kind[kind]]} {name} {first}-{last or first}"] = None
    return "; ".join(told)


def short(name: str) -> str:
    """22.log, or the name of what belongs to no segment."""
    return f"{int(name[:20])}{name[20:]}" if name[:20].isdigit() else name


def faults(data: Path, level: str) -> str:
    """CLASS file first-last of each fault that the audit finds at a level."""
    (files,) = DirectoryStore(1, data).partitions(frozenset())
    told: dict[str, None] = {}
    for segment in files.segments:
        deep_or_batches = check_segment(segment, 0, crc=level == "deep")
        items = list(index_points(segment, 0, []) if level == "index" else deep_or_batches)
        if level == "deep" and not any(isinstance(item, FileFault) and item.file == ".log" for item in items):
            producing: list[Producing] = []
            list(check_blocks(segment, 0, Cells(1 << 20, (), END), crc=True, producing=producing))
            items += (found := list(producer_faults(segment, 0, END, *producing)))
            assert [fault[:5] for fault in found] == [fault[:5] for fault in producer_faults(segment, 0, END)]
        for item in items:
            if isinstance(item, FileFault):
                name = f"{segment.base}{item.file}" if item.file.startswith(".") else short(item.file)
                told[f"{item.fault} {name} {item.first}-{item.last}"] = None
    return "; ".join(told)


def of_producers(fault: str) -> bool:
    return fault.split(" ")[1].endswith(PRODUCERS)


def classes(faults: str) -> str:
    """CLASS file of each, once."""
    return "; ".join(dict.fromkeys(fault.rpartition(" ")[0] for fault in faults.split("; "))) if faults else ""


def test_a_start_after_a_crash_ends_the_log_before_the_damage(data, mixed, row):
    """LD-5, LD-6, SG-8; and with the rest fetched again every file is what it was."""
    directory, whole = data / FLIGHTS.directory_name, mixed / FLIGHTS.directory_name
    size = sum(path.stat().st_size for path in directory.glob("*.log"))
    log = open_log(directory, clean=False, **SETTINGS)
    batches = b"".join(path.read_bytes() for path in sorted(whole.glob("*.log")))
    left = b"".join(segment.path.read_bytes() for segment in log.segments)
    if row.end is None:
        assert not batches.startswith(left)
        return
    assert log.log_end_offset == row.end
    assert log.lost_data is (len(left) < max(size, len(batches)))
    assert batches.startswith(left)
    log.append_as_follower(batches[len(left) :])
    assert (files_of(directory), log.epochs.entries) == (files_of(whole), ((0, 0), (1, 6), (4, 26)))


def test_verify_says_what_and_where_it_is(data, row):
    assert places(data) == re.sub(r"-\d+(?=;|$)", "", row.found)


def test_the_audit_says_what_and_where_it_is(data, row):
    deep = audited(row.found) if row.deep is None else row.deep
    assert faults(data, "deep") == deep
    deep = "; ".join(fault for fault in deep.split("; ") if fault and not of_producers(fault))
    for level, expected in (("batches", row.batches), ("index", row.index)):
        told = faults(data, level)
        assert (told if expected is None else classes(told)) == (deep if expected is None else expected), level


def test_all_ways_of_the_audit_say_the_same(data, row):
    (files,) = DirectoryStore(1, data).partitions(frozenset())
    for segment in files.segments:
        assert not list(differences(segment, 0, random.Random(row.name)))
