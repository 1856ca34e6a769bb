"""Processes are known by id and start time, so that a recycled id is never signalled."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from replog.local_cluster.processes import (
    ProcessId,
    ProcessState,
    send_signal,
    spawn,
    state_of,
    terminate,
    told,
    wait_until_stopped,
    why_ended,
)
from tests.replog.waiting import until

SLEEP = [sys.executable, "-c", "import time; print('started', flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('started', flush=True); time.sleep(600)",
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "process.log"


@pytest.fixture
def sleeper(log: Path) -> Iterator[ProcessId]:
    process = spawn(SLEEP, log)
    yield process
    send_signal(process, signal.SIGKILL)
    assert wait_until_stopped([process], 60) == []


def _wait_for_output(log: Path) -> None:
    until(lambda: "started" in log.read_text(), "its first line")


def test_a_process_runs_in_a_session_of_its_own_and_writes_to_its_log(sleeper, log):
    _wait_for_output(log)
    assert os.getsid(sleeper.pid) == sleeper.pid
    assert state_of(sleeper) is ProcessState.RUNNING


def test_a_killed_child_is_stopped_and_leaves_no_zombie(sleeper):
    assert send_signal(sleeper, signal.SIGKILL)
    assert wait_until_stopped([sleeper], 60) == []
    with pytest.raises(ChildProcessError):
        os.waitpid(sleeper.pid, os.WNOHANG)
    assert state_of(sleeper) is ProcessState.STOPPED


def test_a_paused_process_is_told_apart_and_still_terminates(sleeper, log):
    _wait_for_output(log)
    send_signal(sleeper, signal.SIGSTOP)
    until(lambda: state_of(sleeper) is ProcessState.PAUSED, "it is paused")
    terminate(sleeper)
    assert wait_until_stopped([sleeper], 60) == []


def test_a_recycled_process_id_is_never_signalled(sleeper):
    of_before = ProcessId(sleeper.pid, sleeper.start_time - 1)
    assert state_of(of_before) is ProcessState.STOPPED
    assert not send_signal(of_before, signal.SIGKILL)
    assert state_of(sleeper) is ProcessState.RUNNING


def test_waiting_has_a_deadline_and_names_what_still_runs(log):
    process = spawn(STUBBORN, log)
    try:
        _wait_for_output(log)
        terminate(process)
        assert wait_until_stopped([process], 0.2) == [process]
    finally:
        send_signal(process, signal.SIGKILL)
        wait_until_stopped([process], 60)


def test_a_command_name_with_brackets_and_spaces_does_not_confuse_the_state(tmp_path):
    odd = tmp_path / "a) S (b"
    odd.symlink_to(sys.executable)
    pid = os.posix_spawn(odd, [str(odd), *SLEEP[1:]], os.environ)
    try:
        until(lambda: "a) S" in Path(f"/proc/{pid}/comm").read_text(), "the other program")
        start = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        assert state_of(ProcessId(pid, start)) is ProcessState.RUNNING
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


LINE = '{"reason": "a word", "event": "broker failed", "level": "error", "timestamp": "2026-11-28T15:57:00Z"}'


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([LINE, "error: port 9 is in use"], "port 9 is in use"),
        (
            [LINE, "Traceback (most recent call last):", "ModuleNotFoundError: No module named 'x'"],
            "ModuleNotFoundError",
        ),
        ([LINE], "without a word"),
        (["2026-11-28T15:57:00.1Z [info     ] closing logs   count=1"], "without a word"),
        ([], "without a word"),
        ([LINE, "Current thread 0x7f (most recent call first):", '  File "/x.py", line 8 in run'], "without a word"),
    ],
)
def test_a_process_that_ended_is_told_in_its_last_words_and_not_by_lines_of_its_log(tmp_path, lines, told):
    path = tmp_path / "broker.log"
    path.write_text("\n".join(lines))
    assert why_ended(path).startswith(told)
    assert why_ended(path).endswith(f" (log: {path})")


METRICS = '{"address": "h:1", "event": "metrics", "level": "info"}'
LOADING = '{"progress": "recovering t-0", "event": "loading logs", "level": "info"}'


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([METRICS, LOADING], ", recovering t-0"),
        ([METRICS, LOADING, LINE, '{"state": "recovery", "event": "broker state", "level": "info"}'], ", a word"),
        ([METRICS, r'{"reason": "no \"room\"", "remedy": "x", "event": "y", "level": "warning"}'], r", no \"room\""),
        ([LINE, METRICS], ""),
        ([METRICS, LINE.replace("error", "info")], ""),
    ],
    ids=["loads", "waits", "quoted", "an earlier process", "no warning"],
)
def test_a_process_that_starts_is_told_by_its_progress_or_by_what_it_waits_for(tmp_path, lines, said):
    path = tmp_path / "broker.log"
    path.write_text("\n".join(lines))
    assert told(path) == said
