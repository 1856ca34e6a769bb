"""Runs as many partitions as a cluster may have, three replicas each, on three brokers of this machine.

They are created, written, restarted after a SIGKILL of one broker, of all of them, and in order, written again, and
deleted; one partition more is refused. It prints how long each step took, and ends with an error if one fails. Run it
with `python -m benchmarks.most_partitions`. `--descriptors` is the limit of each process, soft and hard.
"""

import argparse
import asyncio
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.load import write_everywhere
from benchmarks.measure import rss_bytes
from replog.cli.asking import not_led
from replog.client import Admin, Producer
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.local_cluster import LocalCluster
from replog.local_cluster.waiting import wait_for
from replog.topic import MAX_CLUSTER_PARTITIONS, MAX_PARTITIONS

VICTIM = 2


def life(cluster: LocalCluster, partitions: int) -> dict[str, Callable[[], object]]:
    """Return the steps, in order, by their names."""
    sizes = [min(MAX_PARTITIONS, partitions - made) for made in range(0, partitions, MAX_PARTITIONS)]
    topics = {f"many-{number}": size for number, size in enumerate(sizes)}

    async def create() -> None:
        async with Admin(cluster.bootstrap) as admin:
            for topic, size in topics.items():
                await admin.create_topic(topic, partitions=size)

    def led() -> None:
        seen: dict[str, set[tuple[int, int]]] = {topic: set() for topic in topics}

        async def missing() -> str:
            async with Admin(cluster.bootstrap) as admin:
                return ", ".join([told for topic in topics if (told := await not_led(admin, topic, seen[topic]))])

        wait_for(lambda: asyncio.run(missing()), "not led", progress=print)
        cluster.wait_for_full_isr()

    async def refuse() -> None:
        async with Admin(cluster.bootstrap) as admin:
            try:
                await admin.create_topic("one-more", partitions=MAX_CLUSTER_PARTITIONS - partitions + 1)
            except ReplogError as error:
                if error.code is ErrorCode.INVALID_PARTITIONS:
                    return
                raise
        raise ValueError(f"a cluster has more than {MAX_CLUSTER_PARTITIONS} partitions")

    async def write() -> None:
        async with Producer(cluster.bootstrap) as producer:
            for topic, size in topics.items():
                await write_everywhere(
                    lambda topic, partition, record: producer.send(topic, record, partition=partition), topic, size
                )

    def kill() -> None:
        cluster.kill(VICTIM)
        cluster.start(VICTIM)
        cluster.wait_for_full_isr()

    def kill_all() -> None:
        for broker in cluster.state.brokers:
            cluster.kill(broker.name)
        cluster.up(progress=print)
        cluster.wait_for_full_isr()

    def restart() -> None:
        assert not cluster.down(timeout_s=120.0), "a process had to be killed"
        cluster.up(progress=print)
        cluster.wait_for_full_isr()

    async def delete() -> None:
        async with Admin(cluster.bootstrap) as admin:
            for topic in topics:
                await admin.delete_topic(topic)

    return {
        "created": lambda: asyncio.run(create()),
        "led": led,
        "as many as there may be": lambda: asyncio.run(refuse()),
        "written": lambda: asyncio.run(write()),
        "one broker killed and in sync again": kill,
        "all killed and in sync again": kill_all,
        "restarted in order and in sync again": restart,
        "written again": lambda: asyncio.run(write()),
        "deleted": lambda: asyncio.run(delete()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=MAX_CLUSTER_PARTITIONS)
    parser.add_argument("--descriptors", type=int, help="of each process; as it is here if left out")
    options = parser.parse_args()
    partitions = options.partitions
    if options.descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (options.descriptors, options.descriptors))
    with tempfile.TemporaryDirectory(prefix="replog-bench-") as home, LocalCluster(Path(home)) as cluster:
        for name, step in life(cluster, partitions).items():
            started = time.perf_counter()
            step()
            took_s = time.perf_counter() - started
            pids = [broker.pid for broker in cluster.state.brokers if broker.pid]
            largest, opened = max(map(rss_bytes, pids)) >> 20, max(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)
            print(f"{partitions} partitions {name}: {took_s:.1f} s; of a broker {largest} MiB, {opened} descriptors")


if __name__ == "__main__":
    main()
