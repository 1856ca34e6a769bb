"""Runs the commands of a page, on free ports."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from replog.local_cluster.ports import free_port, is_free
from tests.docs.tree import ROOT

_DIGITS = "01234"  # a page's ports end in one of these, or in `$1` or `$n`


def run(script: str, tens: Iterable[str], home: Path, path: str = "") -> str:
    """Returns what the script prints; `home` is its directory. `tens` are the first four digits of its ports, which
    become others. Fails with all of its output and logs if a command fails; nothing of it runs on then.
    """
    others = list[str]()
    for each in tens:
        assert each in script
        others.append(_free_tens(others))
        script = re.sub(rf"\b{each}(?=[{_DIGITS}$])", others[-1], script)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("REPLOG_", "ETCD"))}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{path or environment['PATH']}"
    with subprocess.Popen(
        ["bash", "-c", f"set -euo pipefail\n{script}"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            printed, _ = shell.communicate(timeout=1500)
        finally:
            if shell.poll() != 0:  # it stops its processes at its end
                with suppress(ProcessLookupError):
                    os.killpg(shell.pid, signal.SIGKILL)
    logs = "".join(f"== {log.name}\n{log.read_text(errors='replace')[-1500:]}\n" for log in home.glob("*.log"))
    assert shell.returncode == 0, f"{printed}\n{logs}"
    return printed


def _free_tens(taken: list[str]) -> str:
    while True:
        tens = str(free_port([]))[:-1]
        if tens not in taken and all(is_free(int(tens + digit)) for digit in _DIGITS):
            return tens
