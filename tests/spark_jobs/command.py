"""`replog audit …` as a process, in a session of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

LIMIT_S = 600
_AUDIT = "import sys; from replog.cli.main import main; sys.argv[0:1] = ['replog', 'audit']; main()"


class Command:
    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _AUDIT, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _session(self) -> Iterator[tuple[int, str]]:
        for directory in Path("/proc").iterdir():
            try:
                words = (directory / "stat").read_text().rsplit(")", 1)[1].split()
                command = (directory / "cmdline").read_text().replace("\0", " ")
            except (OSError, IndexError):
                continue
            if words[0] != "Z" and int(words[3]) == self.process.pid:
                yield int(directory.name), command

    def descendants(self) -> list[str]:
        """The command lines of what it started and still runs."""
        return [command for pid, command in self._session() if pid != self.process.pid]

    def kill_java(self) -> None:
        for pid, command in self._session():
            if "org.apache.spark" in command:
                os.kill(pid, signal.SIGKILL)

    def wait_for(self, wanted: Callable[[list[str]], bool]) -> None:
        """Until what it runs is as `wanted`."""
        deadline = time.monotonic() + LIMIT_S
        while not wanted(processes := self.descendants()):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline, processes
            time.sleep(0.02)

    def wait_for_end(self) -> None:
        """Of all that it has started."""
        deadline = time.monotonic() + LIMIT_S
        while processes := self.descendants():
            assert time.monotonic() < deadline, processes
            time.sleep(0.1)

    def ended(self) -> tuple[int, str, str]:
        """Status and outputs, once it has ended by itself."""
        out, err = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, out, err

    def interrupted(self, number: int = signal.SIGINT) -> tuple[int, str, str]:
        """After a Ctrl-C, which goes to everybody at that terminal, or another such signal."""
        os.killpg(self.process.pid, number)
        return self.ended()

    def kill(self) -> None:
        """With everybody at that terminal."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(LIMIT_S)
