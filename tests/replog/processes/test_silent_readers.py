"""Readers that take nothing, of all that a process gives to others: it serves, and it stops.

All that stands outside, and where it is tried that it does not hold the event loop: who reads output and metrics, here;
a full pipe or disk behind the log, `tests/replog/server/test_logging.py`; clients that take no answers or send half,
`rpc/http2/test_unread.py`; handshakes, `rpc/http2/test_handshakes.py`; name servers, `rpc/test_names.py`; disks,
`server/broker/replicas/test_cold_reads.py`, `server/broker/control/test_role_changes.py`, `server/metrics`; a store's,
`server/controller/test_active_controller.py`; etcd, `server/controller/etcd/test_store.py`.
"""

import asyncio
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from replog.client import Admin, Consumer, Producer
from replog.config.listeners import parse_address
from replog.local_cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.processes


@contextmanager
def nobody_reads(path: Path) -> Iterator[None]:
    """In place of a file there is a pipe, and it is full."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    ends = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    fcntl.fcntl(ends, fcntl.F_SETPIPE_SZ, 4096)
    with suppress(BlockingIOError):
        while True:
            os.write(ends, b"x")
    try:
        yield
    finally:
        os.close(ends)


async def exchange(bootstrap: str) -> None:
    async with (
        Admin(bootstrap) as admin,
        Producer(bootstrap) as producer,
        Consumer(bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        await admin.create_topic("t", partitions=1, replication_factor=1)
        await (await producer.send("t", b"read"))
        consumer.assign([("t", 0)])
        assert [record.value for record in await consumer.fetch(60.0)] == [b"read"]


def test_a_cluster_serves_and_stops_though_nobody_reads_its_output_and_its_metrics(tmp_path):
    cluster = LocalCluster(tmp_path / "cluster", brokers=1)
    with ExitStack() as silent:
        for member in cluster._plan().members:
            cluster.home(member).mkdir(exist_ok=True)
            silent.enter_context(nobody_reads(cluster.log_file(member)))
        with cluster:
            for member in cluster.state.members:
                host, port = parse_address(cluster.metrics_address(member))
                for _ in range(3):
                    reader = silent.enter_context(socket.create_connection((host, port), timeout=10))
                    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
                    reader.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            asyncio.run(exchange(cluster.bootstrap))
            begun = time.monotonic()
            assert not cluster.down()
            assert time.monotonic() - begun < 30
