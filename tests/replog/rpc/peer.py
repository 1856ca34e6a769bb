"""A server as a process of its own, which a test may pause: `python -m tests.replog.rpc.peer TRANSPORT`.

It prints its address, and serves until stdin ends."""

import asyncio
import sys

from replog.rpc import methods
from replog.rpc.transports import transport_named
from tests.replog.rpc.handlers import Handlers, serving


async def main(transport: str) -> None:
    async with serving(Handlers(), methods.LOG, transport=transport_named(transport)) as address:
        print(address, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
