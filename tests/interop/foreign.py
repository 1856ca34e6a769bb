"""Programs in Go, built once, of the packages that their lock files name."""

import functools
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import grpc_tools.protoc

from replog.rpc.generate import PROTO
from tests.interop.kafka import cache_directory

_SOURCES = Path(__file__).with_name("clients")
_BUILD_TIMEOUT_S = 240


class NoToolchain(Exception):
    """The client cannot be built here; the message says why and what would help."""


def go_client() -> list[str]:
    """The command that starts it. Raises NoToolchain."""
    go = _go()
    return [str(_built("go", functools.partial(_build_go, go)) / "client")]


def h2spec() -> str:
    """The program, which asks a server for what HTTP/2 says. Raises NoToolchain."""
    go = _go()
    program = "github.com/summerwind/h2spec/cmd/h2spec"
    return str(_built("h2spec", lambda work: _run(work, go, "build", "-o", "h2spec", program)) / "h2spec")


def _go() -> str:
    path = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if path is None:
        raise NoToolchain("go is not on PATH: install it to test with a client that needs it")
    return path


def _built(name: str, build: Callable[[Path], None]) -> Path:
    """The directory of what `build` makes of the sources `name`; of other sources, or contracts, it is another one."""
    files = sorted(path for path in (_SOURCES / name).iterdir() if path.is_file())
    digest = hashlib.sha256()
    for path in (*files, *sorted(PROTO.rglob("*.proto"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    target = cache_directory().with_name(f"{name}-{digest.hexdigest()[:16]}")
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        work = Path(directory) / name
        work.mkdir()
        for path in files:
            shutil.copy(path, work)
        build(work)
        try:
            work.rename(target)
        except OSError:
            if not target.is_dir():  # or another run was quicker
                raise
    return target


def _run(work: Path, *command: str | Path) -> None:
    try:
        done = subprocess.run(
            list(map(str, command)), cwd=work, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise NoToolchain(f"{command} took longer than {_BUILD_TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise NoToolchain(f"{command} ended with {done.returncode}: {(done.stdout + done.stderr)[-1000:]}")


def _build_go(go: str, work: Path) -> None:
    plugins = {"go": "google.golang.org/protobuf/cmd/protoc-gen-go"}
    plugins["go-grpc"] = "google.golang.org/grpc/cmd/protoc-gen-go-grpc"
    _run(work, go, "build", "-o", "plugins/", *plugins.values())
    arguments: list[str] = []
    for name in plugins:
        arguments += [f"--plugin=protoc-gen-{name}={work}/plugins/protoc-gen-{name}"]
        arguments += [f"--{name}_out={work}", f"--{name}_opt=module=replog"]
    contracts = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    _run(work, sys.executable, "-m", grpc_tools.protoc.__name__, f"-I{PROTO}", *arguments, *contracts)
    _run(work, go, "build", "-o", "client", ".")
