"""Runs the commands of a page, on free ports."""

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from replog.local_cluster.ports import FIRST, LAST, reserve
from tests.docs.tree import ROOT

_DIGITS = "01234"  # a page's ports end in one of these, or in `$1` or `$n`


def run(script: str, tens: Iterable[str], home: Path, path: str = "") -> str:
    """Returns what the script prints; `home` is its directory. `tens` are the first four digits of its ports, which
    become others. Fails with all of its output and logs if a command fails; nothing of it runs on then.
    """
    for each in tens:
        assert each in script
        script = re.sub(rf"\b{each}(?=[{_DIGITS}$])", _free_tens(script), script)
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
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            printed, _ = shell.communicate()
        finally:
            if shell.poll() != 0:  # it stops its processes at its end
                with suppress(ProcessLookupError):
                    os.killpg(shell.pid, signal.SIGKILL)
    logs = "".join(f"== {log.name}\n{log.read_text(errors='replace')[-1500:]}\n" for log in home.glob("*.log"))
    assert shell.returncode == 0, f"{printed}\n{logs}"
    return printed


def _free_tens(script: str) -> str:
    """Digits of which the script has none yet; its ports stay reserved, since others look for free ones meanwhile."""
    while True:
        tens = str(random.SystemRandom().randrange(FIRST // 10, LAST // 10))
        if tens not in script and all(reserve(int(tens + digit)) for digit in _DIGITS):
            return tens
