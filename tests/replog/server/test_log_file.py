"""A log file in a bounded room, in a process of its own: it takes over stderr."""

import subprocess
import sys

from replog.server.log_file import OLDER

SCRIPT = """
import logging, sys
from pathlib import Path
from replog.config.processes import LogConfig
from replog.server import log_file
from replog.server.logging import configure_process
log_file.FILE_BYTES = 1000
configure_process(LogConfig(log_file=Path(sys.argv[1]), log_format="json"))
for number in range(int(sys.argv[2])):
    logging.getLogger("test").info("line %d", number)
raise RuntimeError("nobody caught it")"""


def run(path, lines):
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), str(lines)], capture_output=True, text=True, check=False
    )


def test_all_goes_to_the_file_also_what_python_itself_writes_to_stderr(tmp_path):
    path = tmp_path / "broker.log"
    done = run(path, 2)
    assert (done.stderr, done.stdout) == ("", "")
    text = path.read_text()
    assert "line 0" in text
    assert "line 1" in text
    assert "RuntimeError: nobody caught it" in text


def test_a_full_file_is_renamed_and_the_oldest_goes(tmp_path):
    path = tmp_path / "broker.log"
    run(path, 500)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["broker.log", *(f"broker.log.{number}" for number in range(1, OLDER + 1))]
    text = "".join((tmp_path / f"broker.log.{number}").read_text() for number in range(OLDER, 0, -1)) + path.read_text()
    numbers = [int(line.partition('"line ')[2].partition('"')[0]) for line in text.splitlines() if '"line ' in line]
    assert numbers == list(range(numbers[0], 500))
    assert numbers[0] > 0
    assert all(file.stat().st_size < 1500 for file in tmp_path.iterdir() if file != path)


def test_a_file_that_cannot_be_written_to_is_an_error_that_names_the_setting(tmp_path):
    done = run(tmp_path / "missing" / "broker.log", 1)
    assert "INVALID_CONFIG: log.file=" in done.stderr
