"""A server whose name gets another address, as a program of its own: the hosts file it writes is not this machine's.

`python -m tests.replog.rpc.moving_host TRANSPORT` writes to /etc/hosts, so it runs in a mount namespace with a file in
its place. It prints how many seconds a channel took to find the server again."""

import asyncio
import sys
import time
from pathlib import Path

from replog.errors import ReplogError
from replog.rpc import methods
from replog.rpc.transports import transport_named
from tests.replog.rpc.handlers import Handlers, ask, channel_to

NAME = "moving.test"


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
