"""Who reads what a process logs, or does not, and a disk without room hold nobody up: each in a process of its own."""

import os
import subprocess
import sys
import time

from replog.server.log_lines import ENDING_S, ROOM_BYTES

SCRIPT = """
import logging, sys, time
from replog.config.processes import LogConfig
from replog.server.log_lines import LogLines
from replog.server.logging import configure_process
configure_process(LogConfig(log_format="json"))
log, begun, longest = logging.getLogger("test"), time.monotonic(), 0.0
for number in range(int(sys.argv[1])):
    before = time.monotonic()
    log.info("line %d %s", number, "x" * 1000)
    longest = max(longest, time.monotonic() - before)
print(longest, LogLines.lost, flush=True)
sys.stdin.readline()
log.info("the last line")"""
LINES = 2 * ROOM_BYTES // 1000


def logging_to(stderr, lines=LINES):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(lines)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def test_nobody_waits_for_who_does_not_read_and_lines_that_find_no_room_are_counted_and_told_of():
    with logging_to(subprocess.PIPE) as process:
        assert process.stdout is not None
        longest_s, lost = process.stdout.readline().split()
        assert float(longest_s) < 1.0
        assert LINES / 3 < int(lost) < LINES
        assert process.stderr is not None
        read = os.read(process.stderr.fileno(), 1 << 16).decode()
        assert '"event": "line 0 ' in read, "the oldest are kept"
        _, rest = process.communicate("go on\n", timeout=60)
        assert f"{lost} log lines are lost" in rest
        assert "the last line" in rest
        assert process.returncode == 0


def test_a_process_whose_lines_nobody_reads_ends():
    with logging_to(subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        begun = time.monotonic()
        process.stdin.close()
        assert process.wait(60) == 0
        assert time.monotonic() - begun < ENDING_S + 10


def test_a_process_that_nobody_gave_a_stderr_or_whose_disk_is_full_goes_on():
    with open("/dev/full", "w") as full, logging_to(full, 3) as process:
        out, _ = process.communicate("go on\n", timeout=60)
        assert process.returncode == 0, out
    closed = f"exec {sys.executable} -c '{SCRIPT}' 3 2>&-"
    done = subprocess.run(
        ["sh", "-c", closed], input="go on\n", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0
    assert done.stdout
