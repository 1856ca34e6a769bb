"""NATS JetStream: three servers in one cluster, with what else is a default, and `jetstream_client/` for Go.

Its `go.mod` pins client and server. A server acknowledges a record once two of three have it; none of them fsyncs it.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from benchmarks.beside import Beside
from benchmarks.peers.peer import BROKERS, CLIENT, CannotRun, Ordered, Settings, broker_name
from replog.local_cluster.ports import HOST, free_port

_SOURCE = Path(__file__).parent / "jetstream_client"
_BUILD_TIMEOUT_S = 600
_CONFIGURATION = """\
server_name: {name}
listen: "{address}"
jetstream {{ store_dir: "{data}" }}
cluster {{ name: benchmark, listen: "{route}", routes: [{routes}] }}
"""


def build() -> Path:
    """Where `nats-server` and the client are, from the Go module proxy the first time. Raises CannotRun."""
    go = shutil.which("go")
    if go is None:
        raise CannotRun("go is not on PATH to build nats-server with: install Go 1.26 or newer")
    target = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "replog" / "jetstream"
    target.mkdir(parents=True, exist_ok=True)
    command = [go, "build", "-buildvcs=false", "-o", f"{target}/", ".", "github.com/nats-io/nats-server/v2"]
    try:
        done = subprocess.run(
            command, cwd=_SOURCE, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise CannotRun(f"go did not build nats-server within {_BUILD_TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise CannotRun(f"go did not build nats-server: {done.stderr[-1000:]}")
    return target


class JetStreamPeer(Ordered):
    """`benchmarks.peers.peer.Peer`."""

    name = "JetStream"
    defaults = Settings()
    warm_up_mb = 100

    def __init__(self, home: Path) -> None:
        self._home = home
        self._servers: dict[str, subprocess.Popen[bytes]] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        programs = await asyncio.to_thread(build)
        ports: list[int] = []
        for _ in range(2 * len(BROKERS)):
            ports.append(free_port(ports))
        addresses, routes = ([f"{HOST}:{port}" for port in ports[start::2]] for start in range(2))
        try:
            for broker, address, route in zip(BROKERS, addresses, routes, strict=True):
                name = broker_name(broker)
                configuration = _CONFIGURATION.format(
                    name=name,
                    address=address,
                    data=self._home / name / "data",
                    route=route,
                    routes=", ".join(f'"nats://{other}"' for other in routes),
                )
                self._servers[name] = _launch(programs / "nats-server", self._home / name, configuration)
            servers = ",".join(f"nats://{address}" for address in addresses)
            client = [str(programs / "jetstream-client"), servers]
            async with Beside.program("JetStream's client", client) as self.client:
                yield
        finally:
            for server in self._servers.values():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(server.pid, signal.SIGKILL)
            for server in self._servers.values():
                await asyncio.to_thread(server.wait, 10)

    @property
    def pids(self) -> Mapping[str, int]:
        return {**{name: server.pid for name, server in self._servers.items()}, CLIENT: self.client.pid}

    async def make(self, topic: str) -> None:
        await self.order("create", topic)

    async def end(self, topic: str) -> None:
        await self.order("delete", topic)


def _launch(program: Path, home: Path, configuration: str) -> subprocess.Popen[bytes]:
    """In a process group of its own."""
    home.mkdir(parents=True)
    (home / "nats.conf").write_text(configuration)
    with (home / "log").open("ab") as output:
        return subprocess.Popen(
            [program, "-c", home / "nats.conf"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
