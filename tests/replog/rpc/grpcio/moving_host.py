"""A server whose name gets another address, as a program of its own: the hosts file it writes is not this machine's.

`python -m tests.replog.rpc.grpcio.moving_host` writes to /etc/hosts, so it runs in a mount namespace with a file in
its place. It prints how many seconds a channel took to find the server again.
"""

import asyncio
import time
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from replog.rpc.grpcio.channel import GrpcChannel
from replog.rpc.grpcio.server import GrpcServer

NAME = "moving.test"


def name(address: str) -> None:
    Path("/etc/hosts").write_text(f"{address} {NAME}\n")


async def main() -> None:
    before = GrpcServer("127.0.0.2:0")
    port = (await before.start()).rpartition(":")[2]
    name("127.0.0.2")
    channel = GrpcChannel(f"{NAME}:{port}")
    health = health_pb2_grpc.HealthStub(channel._channel)
    await health.Check(health_pb2.HealthCheckRequest(), timeout=20)
    after = GrpcServer(f"127.0.0.3:{port}")
    await after.start()
    name("127.0.0.3")
    await before.stop(0)
    moved = time.monotonic()
    while True:
        try:
            await health.Check(health_pb2.HealthCheckRequest(), timeout=20)
        except grpc.RpcError:
            await asyncio.sleep(0.05)
        else:
            break
    print(time.monotonic() - moved)
    await channel.close()
    await after.stop(0)


if __name__ == "__main__":
    asyncio.run(main())
