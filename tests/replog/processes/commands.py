"""The command line as a process, forked from one that has imported it: half a second less for each command.

All that is left out is the start of the interpreter. `python -m tests.replog.processes.commands` is that process.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from replog.cli.main import main

Replog = Callable[..., subprocess.CompletedProcess[str]]
"""`replog("topic", "list", stdin="", timeout=60, environment={})`, its output captured as text."""

_MODULES = (
    "replog.server.logging",
    "replog.server.broker.process",
    "replog.client",
)  # what commands import when they run
_STREAMS = {"stdin": os.O_RDONLY, "stdout": os.O_WRONLY | os.O_CREAT, "stderr": os.O_WRONLY | os.O_CREAT}


class Commands:
    """Runs commands, one at a time."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.replog.processes.commands"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(
        self, arguments: list[str], stdin: str, timeout: int, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """After `timeout` seconds, SIGALRM ends it."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            (directory / "stdin").write_text(stdin)
            order = {"arguments": arguments, "directory": name, "timeout": timeout, "environment": dict(environment)}
            print(json.dumps(order), file=self._parent.stdin, flush=True)
            status = self._parent.stdout.readline()
            assert status, "the process that commands are forked from has ended"
            out, err = ((directory / stream).read_text() for stream in ("stdout", "stderr"))
        return subprocess.CompletedProcess(arguments, int(status), out, err)

    def close(self) -> None:
        self._parent.communicate(timeout=60)


def _next_order(orders: Iterable[str], statuses: int) -> dict[str, Any]:
    """Returns in children only, once in each; ends the parent after the last order."""
    for line in orders:
        child = os.fork()
        if child == 0:
            return dict(json.loads(line))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(statuses, b"%d\n" % status)
    sys.exit()


def _obey(arguments: list[str], directory: str, timeout: int, environment: dict[str, str]) -> None:
    for number, (stream, flags) in enumerate(_STREAMS.items()):
        os.dup2(os.open(Path(directory) / stream, flags), number)
    os.environ.clear()
    os.environ.update(environment)
    signal.alarm(timeout)
    sys.argv[1:] = arguments
    main()


if __name__ == "__main__":
    for module in _MODULES:
        importlib.import_module(module)
    with os.fdopen(os.dup(0)) as orders:
        _obey(**_next_order(orders, os.dup(1)))
