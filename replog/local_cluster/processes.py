"""Starts and signals processes of a local cluster, which are known by their id *and* their start time (from /proc).

Process ids are used again. A signal goes only to a process that has the id and was started at the noted time, otherwise
a state file that outlived a reboot could stop somebody else's process. What a process says last is in its log file."""

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

POLL_S = 0.02
KILL_TIMEOUT_S = 10.0
LOG_TAIL_LINES, LOG_TAIL_BYTES = 12, 16 << 10
_STARTED = '"event": "metrics"'  # the first line of a process; those before are of an earlier one
# It finds the progress of a broker that loads its logs, and the reason in a warning or an error.
_TOLD = re.compile(
    r'"(?:progress|reason)": "((?:[^"\\]|\\.)*)".*"event": "(?:loading logs"|.*"level": "(?:warning|error)")'
)
_ENDED = "error: "
# A line of JSON or for people, a remark of `log_tail`, or the end of a stack, which SIGQUIT prints.
_OF_LOG = re.compile(r'[{(<.]|File "|\d{4}-\d\d-\d\dT')


class ProcessState(Enum):
    RUNNING = "running"
    PAUSED = "paused"  # SIGSTOP
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ProcessId:
    pid: int
    start_time: int  # clock ticks since boot, field 22 of /proc/PID/stat


def spawn(command: Sequence[str], log: Path) -> ProcessId:
    """Start a command in a new session, with its output appended to `log`. Raises OSError."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        pid = os.posix_spawn(
            command[0],
            list(command),
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(output)
    stat = _stat(pid)
    assert stat is not None, "a child stays in /proc until it is waited for"
    return ProcessId(pid, stat[1])


def state_of(process: ProcessId) -> ProcessState:
    """Return the process's state now; a child of ours that has ended is reaped."""
    stat = _stat(process.pid)
    if stat is None or stat[1] != process.start_time:
        return ProcessState.STOPPED
    if stat[0] in "ZX":
        if stat[2] > 1:
            return ProcessState.RUNNING  # its other threads are still ending, and its port is still taken
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)
        return ProcessState.STOPPED
    return ProcessState.PAUSED if stat[0] in "Tt" else ProcessState.RUNNING


def send_signal(process: ProcessId, number: signal.Signals) -> bool:
    """Send a signal. Return False if the process has ended."""
    if state_of(process) is ProcessState.STOPPED:
        return False
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def terminate(process: ProcessId) -> None:
    """Send SIGTERM, and SIGCONT, otherwise a paused process would not act on it."""
    send_signal(process, signal.SIGTERM)
    send_signal(process, signal.SIGCONT)


def end(processes: Sequence[ProcessId]) -> None:
    """Send SIGKILL to all, and wait until they have ended."""
    for process in processes:
        send_signal(process, signal.SIGKILL)
    wait_until_stopped(processes, KILL_TIMEOUT_S)


def wait_until_stopped(processes: Iterable[ProcessId], timeout_s: float) -> list[ProcessId]:
    """Wait for all processes, and return those that still run after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    left = list(processes)
    while left := [process for process in left if state_of(process) is not ProcessState.STOPPED]:
        if time.monotonic() >= deadline:
            return left
        time.sleep(POLL_S)
    return []


def _stat(pid: int) -> tuple[str, int, int] | None:
    """Return state letter, start time and number of threads; None if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the command's name, in brackets, may hold anything
    return fields[0], int(fields[19]), int(fields[17])


def log_tail(path: Path) -> str:
    """Return the last lines, indented, for an error message."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError as error:
        return f"(cannot read it: {error})"
    return "\n".join("  " + line for line in lines[-LOG_TAIL_LINES:]) or "  (it is empty)"


def told(path: Path) -> str:
    """Return what a process that starts has said last of its progress, or of what it waits for."""
    said = _TOLD.findall(log_tail(path).rpartition(_STARTED)[2])
    return f", {said[-1]}" if said else ""


def last_words(path: Path) -> str:
    """Return the reason why a process ended by itself, which is its last line; empty if it said none."""
    last = log_tail(path).splitlines()[-1].strip()
    return "" if _OF_LOG.match(last) else last.removeprefix(_ENDED)


def why_ended(path: Path) -> str:
    """Return why a process ended, as far as it said so, and where its log is."""
    return f"{last_words(path) or 'without a word'} (log: {path})"
