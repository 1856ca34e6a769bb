"""`replog log …` on the files of a broker that is not there."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from replog.cli.log_reports import dump_paths
from replog.log.directories.partition_metadata import read_topic_id
from tests.damage.vocabulary import flip
from tests.replog.log_tools.verify.directories import file, write_log_directory


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    return write_log_directory(tmp_path / "data")


def test_verify_of_a_sound_directory_prints_nothing_but_a_summary(replog, flights):
    done = replog("log", "verify", flights.parent, "--deep")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("faults: 0, notes: 0; verified: segments 4, batches 26, records 38, bytes 2055 at ")
    assert done.stderr.endswith(" MB/s\n")


def test_on_a_terminal_verify_shows_its_progress_and_ends_alike(flights):
    terminal, its_end = os.openpty()
    command = [sys.executable, "-m", "replog.cli", "log", "verify", flights]
    done = subprocess.run(command, stdout=its_end, stderr=its_end, timeout=60, check=False)
    shown = os.read(terminal, 1 << 16)
    assert (done.returncode, b"faults: 0, notes: 0" in shown, b"\x1b[" in shown) == (0, True, True), shown


def test_verify_shows_faults_and_what_they_mean_and_says_so_by_its_status(replog, flights):
    flip(file(flights, 22, "log"), 316 + 65)
    done = replog("log", "verify", flights)
    assert done.returncode == 1
    line, meaning = done.stdout.splitlines()
    assert line.startswith(f"fault BATCH_CRC {file(flights, 22, 'log')}, position 316, offset 26: stored CRC ")
    assert meaning.startswith("BATCH_CRC: the bytes have changed since they were written (RB-1)")
    done = replog("log", "verify", "--format", "json", flights)
    assert done.returncode == 1
    (line,) = done.stdout.splitlines()
    fault = json.loads(line)
    assert fault.pop("found").startswith("stored CRC ")
    assert fault.pop("meaning").startswith("the bytes have changed")
    assert fault == {
        "severity": "fault",
        "kind": "BATCH_CRC",
        "file": str(file(flights, 22, "log")),
        "position": 316,
        "offset": 26,
    }


def test_notes_are_no_faults(replog, flights):
    (flights / "notes.txt").write_text("")
    (flights / os.fsdecode(b"caf\xe9")).write_text("")
    for output in ("table", "json"):
        done = replog("log", "verify", "--format", output, flights)
        assert (done.returncode, done.stdout.count("STRAY") > 1) == (0, True), done.stderr


@pytest.mark.parametrize("command", ["verify", "dump"])
def test_what_is_not_there_is_bad_use(replog, tmp_path, command):
    done = replog("log", command, tmp_path / "nothing")
    assert done.returncode == 2
    assert f"error: INVALID_REQUEST: no such file or directory: {tmp_path / 'nothing'}\n" == done.stderr


def test_dump_of_a_directory_shows_every_kind_of_file_in_order(replog, flights):
    done = replog("log", "dump", flights.parent)
    assert done.returncode == 0, done.stderr
    names = [Path(line.removeprefix("Dumping ")).name for line in done.stdout.splitlines() if line.startswith("Dump")]
    assert names[0] == "log-start-offset-checkpoint"
    assert names.index(f"{14:020d}.log") < names.index(f"{14:020d}.index") < names.index(f"{14:020d}.snapshot")
    assert names.index(f"{14:020d}.snapshot") < names.index(f"{22:020d}.log") < names.index(f"{22:020d}.txnindex")
    assert names[-2:] == ["leader-epoch-checkpoint", "partition.metadata"]
    for line in (
        "producer_id: 5 first_offset: 12 last_offset: 24 last_stable_offset: 13",
        "topic: flights partition: 0 offset: 38",
        "topic_id: MDEyMzQ1Njc4OWFiY2RlZg",
        "epoch: 4 start_offset: 26",
    ):
        assert line in done.stdout.splitlines()
    assert "control: ABORT" in done.stdout
    assert "isTransactional: True" in done.stdout
    assert "compression: zstd" in done.stdout
    flip(file(flights, 22, "log"), 316 + 65)
    damaged = replog("log", "dump", "--deep", "--format", "json", flights)
    kinds = [json.loads(line) for line in damaged.stdout.splitlines()]
    assert (damaged.returncode, False in [row.get("isValid") for row in kinds]) == (1, True)


def test_notes_that_are_alike_are_told_three_times_and_counted(replog, flights):
    for number in range(10):
        (flights / f"{number:020d}.log.deleted").write_text("")
    done = replog("log", "verify", flights)
    assert (done.returncode, done.stdout.count(".log.deleted")) == (0, 3), done
    assert f"note LEFTOVER {flights}: and 7 more files in here" in done.stdout
    assert "notes: 10;" in done.stderr
    assert len(replog("log", "verify", "--format", "json", flights).stdout.splitlines()) == 10


def test_a_dump_goes_on_behind_a_file_that_a_broker_deleted(flights, capsys, monkeypatch):
    class Terminal(io.StringIO):
        """Where the first output comes, a broker deletes a file that the command has listed already."""

        def write(self, text: str) -> int:
            file(flights, 14, "index").unlink(missing_ok=True)
            return super().write(text)

    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    assert dump_paths([flights], deep=False, as_json=False)
    assert capsys.readouterr().err.startswith("error: [Errno 2] No such file or directory: ")
    assert "topic_id: " in shown.getvalue()


def test_a_directory_without_files_of_a_log_is_bad_use(replog, tmp_path):
    done = replog("log", "dump", tmp_path)
    assert (done.returncode, done.stderr) == (2, f"error: INVALID_REQUEST: no file of a log in {tmp_path}\n")


def test_a_lost_topic_id_is_written_anew_and_no_other_is_overwritten(replog, flights):
    path = flights / "partition.metadata"
    before = path.read_bytes()
    hexadecimal, short = read_topic_id(flights).hex(), before[-22:].decode()
    flights.symlink_to(flights.rename(flights.with_name("moved")))
    for content, given in ((b"", hexadecimal), (bytes(43), short), (before, hexadecimal)):
        path.write_bytes(content)
        done = replog("log", "set-topic-id", "--topic-id", given, flights)
        assert (done.returncode, path.read_bytes()) == (0, before), done.stderr
    for directory, given, reason in (
        (flights, "00" * 15 + "01", "belongs to topic"),
        (flights, "x", "neither 32 hex digits"),
        (flights.parent, hexadecimal, "not the directory of a partition"),
    ):
        done = replog("log", "set-topic-id", "--topic-id", given, directory)
        assert (done.returncode, path.read_bytes()) == (2, before)
        assert reason in done.stderr
