"""A command as process 1 of a container: the kernel drops signals that such a process does not handle."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.replog.waiting import until

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(os.geteuid() != 0, reason="a process namespace of one's own needs root"),
]


def test_a_sigterm_that_comes_while_modules_are_imported_is_not_lost(tmp_path):
    started = tmp_path / "started"
    code = f"import replog.cli, pathlib; pathlib.Path({str(started)!r}).touch(); import time; time.sleep(600)"
    with subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", code]) as outer:
        try:
            until(started.exists, "a start")
            (inner,) = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
            os.kill(int(inner), signal.SIGTERM)
            assert outer.wait(60) == 128 + signal.SIGTERM
        finally:
            outer.kill()
