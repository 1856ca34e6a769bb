"""DeleteRecords across replicas (FT-23), in virtual time."""

import pytest

from replog.errors import ErrorCode, ReplogError
from tests.replog.server.broker.virtual_pair import TP, VirtualPair


@pytest.fixture
def pair(pair):
    pair.create_topic(min_insync_replicas="1")
    pair.produce(*[100] * 10)
    return pair


async def delete(pair: VirtualPair, offset: int) -> int:
    async with pair.admin() as admin:
        return (await admin.delete_records({TP: offset}))[TP]


def test_a_replica_that_is_fenced_meanwhile_is_waited_for_no_longer_ft_23(pair):
    """It was out of the ISR before, so that no record of the partition changes by its end."""
    pair.cut()
    pair.produce(100, acks=1)
    pair.until(lambda: pair.isr == {1})
    assert not pair.controller.state.image.brokers[2].fenced
    waiting = pair.loop.spawn(pair.client, delete(pair, 7))
    pair.wait(5)
    assert not waiting.done()
    pair.kill(2)
    pair.until(waiting.done, 2)
    assert waiting.result() == 7


def test_who_waits_in_vain_is_told_what_for(pair):
    pair.network.block("broker-2", "broker-1")
    with pytest.raises(ReplogError, match="t-0: a live replica may still have records before offset 7") as refused:
        pair.run(delete(pair, 7))
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
