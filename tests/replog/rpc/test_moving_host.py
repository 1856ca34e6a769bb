"""A host that comes back under another address.

`python -m tests.replog.rpc.test_moving_host TRANSPORT` is such a server, and a channel to it. It writes to /etc/hosts,
so it runs in a mount namespace with a file in its place. It prints how many seconds it took to find it again."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from replog.errors import ReplogError
from replog.rpc import methods
from replog.rpc.transports import TRANSPORTS, transport_named
from tests.replog.rpc.handlers import Handlers, ask, channel_to

pytestmark = pytest.mark.processes

NAMESPACE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
NAME = "moving.test"
FOUND_S = 20.0  # gRPC by itself asks for the address again after 30 s; within a second where nothing else runs


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_changed_address_is_found_without_waiting_for_grpcs_half_minute(tmp_path, transport):
    hosts = tmp_path / "hosts"
    hosts.touch()
    mount = f"mount --bind {hosts} /etc/hosts"
    if subprocess.run([*NAMESPACE, "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("mount namespaces are not allowed here, and /etc/hosts is not the test's to write")
    program = f"{mount} && exec {sys.executable} -m tests.replog.rpc.test_moving_host {transport}"
    run = subprocess.run([*NAMESPACE, "sh", "-c", program], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    print(f"found after {float(run.stdout):.2f} s")
    assert float(run.stdout) < FOUND_S


def name(address: str) -> None:
    Path("/etc/hosts").write_text(f"{address} {NAME}\n")


async def main(transport_name: str) -> None:
    transport = transport_named(transport_name)
    before = transport.listen("127.0.0.2:0")
    before.add(methods.LOG, Handlers())
    port = (await before.start()).rpartition(":")[2]
    name("127.0.0.2")
    async with channel_to(f"{NAME}:{port}", transport) as channel:
        await ask(channel, "a", timeout_s=20)
        after = transport.listen(f"127.0.0.3:{port}")
        after.add(methods.LOG, Handlers())
        await after.start()
        name("127.0.0.3")
        await before.stop(0)
        moved = time.monotonic()
        while True:
            try:
                await ask(channel, "a", timeout_s=20)
            except ReplogError:
                await asyncio.sleep(0.05)
            else:
                break
        print(time.monotonic() - moved)
    await after.stop(0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
