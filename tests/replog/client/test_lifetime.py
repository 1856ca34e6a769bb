"""A client is of no use once it is closed, nor in a child of its process, and says so."""

import asyncio
import inspect
import os
import sys
from typing import Any

import pytest

from replog.client import Admin, Consumer, Producer
from replog.errors import ErrorCode, ReplogError
from tests.replog.client.calls import CLIENTS, calls, outcome, public, run_apart

LOCAL = {"metrics", "assignment", "topic_id"}  # of what a closed client still knows


@pytest.mark.parametrize("client", CLIENTS)
def test_the_examples_are_of_every_call(client):
    assert {*calls(client), "close"} == set(public(client))


@pytest.mark.parametrize("client", CLIENTS)
async def test_every_call_of_a_closed_client_says_that_it_is_closed(client):
    closed = client("127.0.0.1:1")
    await closed.close()
    await closed.close()
    for name in calls(client).keys() - LOCAL:
        with pytest.raises(ReplogError, match="is closed; make another one") as refused:
            await asyncio.wait_for(outcome(calls(client)[name](closed)), 5)
        assert refused.value.code is ErrorCode.INVALID_REQUEST, name
    for name in calls(client).keys() & LOCAL:
        calls(client)[name](closed)


def untold(made: list[Any]) -> list[str]:
    """In a child: the calls that do not say at once that a client of its own is to be made."""
    missing = []
    for client in made:
        for name, call in calls(type(client)).items():
            try:
                called = call(client)
                if inspect.iscoroutine(called):
                    called.send(None)
                    called.close()
                missing.append(f"{type(client).__name__}.{name}")
            except Exception as error:  # noqa: BLE001 (told by the test)
                if "make a new one in the child" not in str(error):
                    missing.append(f"{type(client).__name__}.{name}: {error}")
    return missing


async def fork_amid_clients(address: str) -> None:
    """Prints what is wrong."""
    producer, consumer, admin = Producer(address), Consumer(address), Admin(address)
    async with producer, consumer, admin:
        consumer.assign([("t", 0)])
        consumer.seek(("t", 0), 0)
        await (await producer.send("t", b"before"))
        seen = [record.value for record in await consumer.fetch(60)]
        await admin.list_topics()
        streams = [*consumer._fetcher._streams.values(), *producer._sender._streams.values()]
        for _ in range(2):
            under_way = await producer.send("t", b"amid")
            if not (pid := os.fork()):
                missing = untold([producer, consumer, admin])
                try:
                    under_way.__await__().send(None)
                    missing.append("Delivery")
                except ReplogError:
                    pass
                sys.exit("; ".join(missing) or 0)  # through the loop, whose tasks are ended, and all the `async with`
            _, status = os.waitpid(pid, 0)  # noqa: ASYNC222 (the parent stands still, as it may)
            assert status == 0, status
            await under_way
            await (await producer.send("t", b"after"))
        while len(seen) < 5 and (records := await consumer.fetch(60)):
            seen += [record.value for record in records]
        assert seen == [b"before", b"amid", b"after", b"amid", b"after"], seen
        assert [*consumer._fetcher._streams.values(), *producer._sender._streams.values()] == streams, "one was lost"


async def test_a_child_cannot_use_its_parents_clients_and_the_parent_goes_on(one_broker):
    await run_apart(f"import asyncio; from {__name__} import *; asyncio.run(fork_amid_clients({one_broker!r}))")
