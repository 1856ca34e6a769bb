"""Start what a file in deploy/ says, wait for a sign of life, stop it cleanly."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


class Running:
    """One process and its output."""

    def __init__(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(arguments, stdout=output, stderr=output, env=environment)

    def wait_until(self, alive: Callable[[str], bool], what: str, timeout_s: float = 400) -> None:
        """Poll `alive`, which is given the output so far. Fails with that output."""
        deadline = time.monotonic() + timeout_s
        while not alive(self.log.read_text()):
            ended = self.process.poll()
            assert ended is None, f"ended with {ended} before {what}:\n{self.log.read_text()}"
            assert time.monotonic() < deadline, f"no sign of {what} after {timeout_s} s:\n{self.log.read_text()}"
            time.sleep(0.1)

    def stop(self, timeout_s: float = 100) -> int | None:
        """SIGTERM; the exit status, None if it had to be killed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(60)
            return None


@contextmanager
def stopped_afterwards() -> Iterator[list[Running]]:
    """What is put into the list is stopped on the way out, last started first."""
    started: list[Running] = []
    try:
        yield started
    finally:
        for running in reversed(started):
            if running.process.poll() is None:
                running.stop()
