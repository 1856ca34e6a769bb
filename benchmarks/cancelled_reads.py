"""What a read that is cancelled in mid-wait leaves behind, in its broker and in its client, over each transport.

A broker and a client, each a process of its own, have `--reads` reads cancelled, a quarter in each of four ways, after
a tenth of them as a warm-up. Reported is by how many bytes of resident memory each process grew for a read.

Run it with `make bench-cancelled`.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.beside import Beside, Figures
from benchmarks.cancelling import QUIET, WAYS
from benchmarks.measure import rss_bytes
from benchmarks.report import benchmark_parser, publish, table
from replog.client import Admin
from replog.local_cluster.local_cluster import LocalCluster
from replog.rpc.transports import TRANSPORTS


async def measure(cluster: LocalCluster, transport: str, reads: int) -> dict[str, Figures]:
    """By the way in which a read ends: bytes by which broker and client grew for each."""
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(QUIET, partitions=1, replication_factor=1)
    (broker,) = cluster.state.brokers
    assert broker.pid is not None
    reads //= len(WAYS)
    async with Beside.running("benchmarks.cancelling", transport, broker.address) as client:
        processes = {"broker": broker.pid, "client": client.pid}
        grown = {}
        for way in WAYS:
            await client.order("cancel", way=way, reads=reads // 10)
        for way in WAYS:
            before = {name: rss_bytes(pid) for name, pid in processes.items()}
            await client.order("cancel", way=way, reads=reads)
            grown[way] = {name: (rss_bytes(pid) - before[name]) / reads for name, pid in processes.items()}
            print(f"{transport}, cancelled by {way}: {grown[way]}", file=sys.stderr, flush=True)
        return grown


def shown(transports: Mapping[str, Mapping[str, Figures]]) -> str:
    head = ["a read ends by", *(f"{name}: {side}, bytes" for name in transports for side in ("broker", "client"))]
    rows = [
        [way, *(f"{transports[name][way][side]:.1f}" for name in transports for side in ("broker", "client"))]
        for way in WAYS
    ]
    return table(head, rows)


def run(transport: str, reads: int) -> dict[str, Figures]:
    with (
        tempfile.TemporaryDirectory(prefix="replog-bench-", ignore_cleanup_errors=True) as home,
        LocalCluster(Path(home), 1, {"rpc.transport": transport}) as cluster,
    ):
        return asyncio.run(measure(cluster, transport, reads))


def main() -> int:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--reads", type=int, default=50_000, help="over each transport")
    options = parser.parse_args()
    transports = {name: run(name, options.reads) for name in TRANSPORTS}
    publish("cancelled_reads", shown(transports), {"reads": options.reads, "bytes_a_read": transports}, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
