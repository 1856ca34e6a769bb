"""A producer that no ACL lets write."""

import random

import pytest

from replog.client import DeliveryFailed, Producer
from replog.errors import ErrorCode, ReplogError
from replog.rpc.methods import Method
from tests.replog.client.network import Network, VirtualLoop, _Channel


class Denying(Network):
    asked = 0

    def connect(self, address: str) -> _Channel:
        return _DenyingChannel(self, address)


class _DenyingChannel(_Channel):
    async def call(self, method: Method, request: object, timeout_s: float) -> object:
        if method.handler_name == "init_producer_id":
            self._network.asked += 1  # type: ignore[attr-defined]
            assert self._network.asked < 100, "it asks without a pause"  # type: ignore[attr-defined]
            raise ReplogError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
        return await super().call(method, request, timeout_s)


def test_one_that_is_denied_its_id_asks_once_for_each_batch_and_not_without_a_pause(tmp_path):
    loop = VirtualLoop()
    network = Denying(tmp_path, random.Random(1))
    network.trouble = False

    async def denied() -> None:
        async with Producer("one:1", transport=network) as producer:  # type: ignore[arg-type]
            began = loop.time()
            for number in range(20):
                with pytest.raises(DeliveryFailed, match="CLUSTER_AUTHORIZATION_FAILED"):
                    await producer.send_and_wait("t", b"x")
                assert network.asked == number + 1
            assert loop.time() - began > 5

    try:
        loop.run_until_complete(denied())
    finally:
        loop.close()
        network.log.close()
