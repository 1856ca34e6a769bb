"""Elections over one etcd, the simulator's: to whom callers are sent by who does not decide."""

from random import Random

import pytest

from replog.errors import ReplogError
from replog.rpc import methods
from replog.rpc.http2.shells.transport import H2Transport
from replog.server.clock import SystemClock
from replog.server.controller.etcd.client import EtcdClient
from replog.server.controller.etcd.election import Election
from replog.simulator.etcd.service import EtcdService
from replog.simulator.etcd.state import EtcdState


@pytest.fixture
async def etcd():
    clock = SystemClock()
    server = H2Transport().listen("127.0.0.1:0")
    service = EtcdService(EtcdState(), clock)
    server.add(methods.ETCD_KV, service)
    server.add(methods.ETCD_LEASE, service)
    server.address = await server.start()
    yield server
    await server.stop(0)


@pytest.fixture
async def first_and_second(etcd):
    """Two controllers, of which the first is elected."""
    elections = [
        Election(EtcdClient(H2Transport(), [etcd.address]), "/", name, 5, SystemClock(), Random(name))
        for name in ("first:1", "second:1")
    ]
    assert [await election.stand() for election in elections] == [True, False]
    yield elections
    for election in elections:
        await election.close()


async def test_who_is_not_elected_names_who_is(first_and_second):
    _, second = first_and_second
    assert second.leader == "first:1"


async def test_who_is_cut_off_from_etcd_names_nobody(first_and_second, etcd):
    """Neither itself, if it has led, nor whom it heard of last: another one may decide by now."""
    first, second = first_and_second
    await etcd.stop(0)
    for election in (first, second):
        with pytest.raises(ReplogError):
            await election.stand()
    assert (first.leader, second.leader) == ("", "")


async def test_who_finds_a_key_of_its_own_earlier_term_does_not_name_itself(first_and_second):
    first, _ = first_and_second
    assert not await first.stand()
    assert first.leader == ""
