"""docs/first-cluster.md run as it stands: three of each, one of each lost, nothing lost."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from replog.local_cluster.ports import free_port, is_free
from tests.docs.tree import ROOT
from tests.replog.server.controller.etcds import path_with_etcd

PAGE = "docs/first-cluster.md"
PORTS = ("1909", "1919", "2379", "2380")  # each is followed by the number of a process


def script() -> str:
    text = (ROOT / PAGE).read_text()
    return "set -euo pipefail\n" + "".join(re.findall(r"^```bash\n(.*?)^```", text, re.M | re.S))


def free_tens(taken: list[str]) -> str:
    """The beginning of three free ports that end in 1, 2 and 3."""
    while True:
        tens = str(free_port([]))[:-1]
        if tens not in taken and all(is_free(int(f"{tens}{n}")) for n in (1, 2, 3)):
            return tens


@pytest.mark.processes
@pytest.mark.plaintext("it makes certificates of its own")
def test_one_of_each_is_killed_and_two_disks_are_lost_and_every_record_is_there(tmp_path):
    home = tmp_path / "three"
    text, taken = script().replace("/tmp/replog-three", str(home)), list[str]()
    for port in PORTS:
        assert port in text
        taken.append(free_tens(taken))
    for port, tens in zip(PORTS, taken, strict=True):
        text = re.sub(rf"\b{port}(?=[123$])", tens, text)
    program = Path(sys.executable).parent
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("REPLOG_", "ETCD"))}
    environment["PATH"] = f"{program}{os.pathsep}{path_with_etcd(tmp_path / 'bin')}"
    with subprocess.Popen(
        ["bash", "-xc", text],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as run:
        try:
            out, errors = run.communicate(timeout=1500)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
    logs = "".join(f"== {log.name}\n{log.read_text(errors='replace')[-1500:]}\n" for log in home.glob("*.log"))
    assert run.returncode == 0, f"{out}\n{errors[-6000:]}\n{logs}"
    assert out.splitlines()[-1].strip() == "700", out
