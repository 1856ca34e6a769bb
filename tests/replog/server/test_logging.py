"""Who reads what a process logs, or does not, and a disk without room hold nobody up: each in a process of its own."""

import os
import signal
import subprocess
import sys
import time

from replog.server.logging import ENDING_S, LINES, OLDER, ROOM_BYTES, log_each

SCRIPT = """
import logging, sys, time
from replog.config.processes import ServerConfig
from replog.server.logging import configure_process
from replog.server.metrics.families import Times
from replog.server.metrics.process import process_metrics
from replog.server.process import survive_signals
from replog.server.slow_steps import SlowSteps
survive_signals()
configure_process(ServerConfig(log_format="json"))
log, begun, longest = logging.getLogger("test"), time.monotonic(), 0.0
for number in range(int(sys.argv[1])):
    before = time.monotonic()
    log.info("line %d %s", number, "x" * 1000)
    longest = max(longest, time.monotonic() - before)
shown = {each.name: each for each in process_metrics(SlowSteps(), Times())}["replog_log_lines_lost"].samples[0].value
print(longest, int(shown), flush=True)
sys.stdin.readline()
log.info("the last line")"""
LOGGED = 2 * ROOM_BYTES // 1000


def logging_to(stderr, lines=LOGGED):
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
        assert LOGGED / 3 < int(lost) < LOGGED
        assert process.stderr is not None
        read = os.read(process.stderr.fileno(), 1 << 16).decode()
        assert '"event": "line 0 ' in read, "the oldest are kept"
        _, rest = process.communicate("go on\n", timeout=60)
        assert f"{lost} log lines are lost" in rest
        assert "the last line" in rest
        assert process.returncode == 0


def test_a_process_whose_lines_and_stacks_nobody_reads_ends():
    with logging_to(subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGQUIT)
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


FILE_SCRIPT = """
import logging, sys
from pathlib import Path
from replog.config.processes import ServerConfig
from replog.server import logging as ours
from replog.server.logging import configure_process
ours.FILE_BYTES = 1000
configure_process(ServerConfig(log_file=Path(sys.argv[1]), log_format="json"))
for number in range(int(sys.argv[2])):
    logging.getLogger("test").info("line %d", number)
raise RuntimeError("nobody caught it")"""


def run(path, lines):
    return subprocess.run(
        [sys.executable, "-c", FILE_SCRIPT, str(path), str(lines)], capture_output=True, text=True, check=False
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


def test_what_happens_to_many_at_once_is_a_few_lines_and_how_many_more_there_are():
    lines: list[tuple[str, dict[str, object]]] = []

    def tell(event: str, **details: object) -> None:
        lines.append((event, details))

    rows = [{"partition": f"t-{number}"} for number in range(LINES + 990)]
    log_each(tell, "leading", rows[:LINES])
    assert lines == [("leading", row) for row in rows[:LINES]]
    lines.clear()
    log_each(tell, "leading", rows)
    assert lines == [*(("leading", row) for row in rows[:LINES]), ("leading: more of them", {"count": 990})]


def test_a_command_says_warnings_as_sentences_and_nothing_else():
    script = (
        "import logging, structlog; from replog.server.logging import configure_command; configure_command()\n"
        "logging.getLogger('a').info('not said'); logging.getLogger('a').warning('no metadata: %s', 'why')\n"
        "structlog.get_logger().warning('slow', count=2)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("", "warning: no metadata: why\nwarning: slow count=2\n")
