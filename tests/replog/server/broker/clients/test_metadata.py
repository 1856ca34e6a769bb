"""Whom clients believe about who leads what."""

import asyncio

import pytest

from replog.client import Producer
from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.v1 import log_pb2
from tests.replog.server.broker.conftest import eventually


async def test_a_broker_that_has_heard_no_controller_yet_sends_clients_to_others(cluster):
    """It would deny every topic, and clients that asked it would ask nobody else until it knew better."""
    serving = await cluster.begin(1)
    early = cluster.new_broker(2, controller_listener="127.0.0.1:1")
    starting = asyncio.create_task(early.start())
    try:
        await eventually(lambda: bool(early.address))
        with pytest.raises(ReplogError, match="broker 2 is starting") as caught:
            await cluster.channel(early.address).call(
                methods.Log["get_metadata"], log_pb2.GetMetadataRequest(topics=["t"]), 5
            )
        assert caught.value.code is ErrorCode.BROKER_NOT_AVAILABLE
        async with Producer([early.address, serving.address], max_block_ms=5000) as producer:
            assert (await (await producer.send("t", b"x"))).offset == 0
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
