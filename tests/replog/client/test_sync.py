"""The blocking clients, called from a thread beside the cluster's loop as a script would."""

import asyncio
import inspect
import math
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from replog.client import SyncAdmin, SyncConsumer, SyncProducer
from replog.errors import ReplogError
from tests.replog.client.calls import TP, TWINS, public, run_apart


async def test_a_script_creates_writes_and_reads(cluster):
    await cluster.start_broker(1)
    address = cluster.brokers[1].address

    def script() -> list[bytes | None]:
        with SyncAdmin(address) as admin, SyncProducer(address) as producer, SyncConsumer(address) as consumer:
            admin.create_topic("t", replication_factor=1)
            assert producer.send("t", b"one", key=b"k").offset == 0
            assert [placed.offset for placed in producer.send_many("t", [b"two", b"three"])] == [1, 2]
            consumer.assign([TP])
            consumer.seek(TP, 0)
            values: list[bytes | None] = []
            while len(values) < 3:
                values += [record.value for record in consumer.fetch(timeout_s=60)]
            assert consumer.position(TP) == consumer.end_offsets([TP])[TP] == 3
            assert [topic for topic in admin.list_topics() if topic == admin.describe_topic("t").topic] == ["t"]
            return values

    assert await asyncio.to_thread(script) == [b"one", b"two", b"three"]


@pytest.mark.parametrize(("client", "twin"), TWINS.items())
def test_blocking_clients_have_every_call_with_the_same_arguments_and_words(client, twin):
    left_out = {"start", "send_and_wait", "fetch_decoded"}
    assert set(public(client)) - left_out == {name for name in public(twin) if not name.endswith("_nowait")}
    for name in {"__init__", *public(twin)}:
        if isinstance(getattr(twin, name), property):
            continue
        mine, its = (inspect.signature(getattr(of, name.removesuffix("_nowait"))) for of in (twin, client))
        known = {n: str(p) for n, p in its.parameters.items() if n not in ("rng", "wall_clock_ms")}
        assert {n: str(p) for n, p in mine.parameters.items()} == known, name
        assert all(p.kind is not p.VAR_KEYWORD and p.annotation is not Any for p in mine.parameters.values()), name
        assert getattr(twin, name).__doc__ == getattr(client, name.removesuffix("_nowait")).__doc__


async def test_a_script_sends_without_waiting_and_reads_record_after_record(one_broker):
    def script() -> list[bytes | None]:
        with SyncProducer(one_broker, linger_ms=60_000) as producer, SyncConsumer(one_broker) as consumer:
            sent = [producer.send_nowait("t", b"%d" % number) for number in range(5)]
            assert not sent[-1].done()
            with pytest.raises(TimeoutError):
                sent[-1].result(0.05)
            with pytest.raises(ReplogError, match="timeout_s=nan"):
                sent[-1].result(math.nan)
            assert "under way" in repr(sent[-1])
            producer.flush()
            assert [delivery.result().offset for delivery in sent] == [0, 1, 2, 3, 4]
            consumer.assign([("t", partition) for partition in consumer.partitions_for("t")])
            consumer.seek_to_beginning()
            assert consumer.assignment == [TP]
            assert consumer.beginning_offsets([TP]) == {TP: 0}
            return [record.value for _, record in zip(range(5), consumer, strict=False)]

    assert await asyncio.to_thread(script) == [b"%d" % number for number in range(5)]


def test_a_closed_client_says_so_and_a_refused_one_leaves_no_thread():
    before = threading.active_count()
    uses: dict[Any, Callable[[Any], object]] = {
        SyncProducer: lambda producer: producer.send("t", b"x"),
        SyncConsumer: lambda consumer: consumer.end_offsets([TP]),
        SyncAdmin: lambda admin: admin.list_topics(),
    }
    for blocking, use in uses.items():
        closed = blocking("127.0.0.1:1")
        assert threading.active_count() == before + 1
        closed.close()
        closed.close()
        for call in (use, *([lambda consumer: next(iter(consumer))] if blocking is SyncConsumer else [])):
            with pytest.raises(ReplogError, match="is closed; make another one"):
                call(closed)
        with pytest.raises(ReplogError, match="is not host:port"):
            blocking("nonsense")
    assert threading.active_count() == before


async def test_a_child_cannot_use_a_blocking_client_and_its_parent_can():
    """It hung there for ever: the thread is not in the child."""
    await run_apart(f"from {__name__} import *; fork_amid_blocking_clients()")


def fork_amid_blocking_clients() -> None:
    made = [SyncProducer("127.0.0.1:1", max_block_ms=100), SyncConsumer("127.0.0.1:1"), SyncAdmin("127.0.0.1:1")]
    if not (pid := os.fork()):
        signal.alarm(60)
        for client in made:
            with pytest.raises(ReplogError, match="make a new one in the child"):
                client.list_topics() if isinstance(client, SyncAdmin) else client.metrics()
            client.close()
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    with pytest.raises(ReplogError, match="NETWORK_EXCEPTION"):
        made[0].send("t", b"x")  # type: ignore[union-attr]
    for client in made:
        client.close()
