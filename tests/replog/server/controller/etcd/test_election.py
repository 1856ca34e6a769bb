"""Elections over one etcd, the simulator's: to whom callers are sent by who does not decide."""

from random import Random

import pytest

from replog.errors import ReplogError
from replog.rpc.transports import H2Transport
from replog.server.clock import SystemClock
from replog.server.controller.etcd.client import EtcdClient
from replog.server.controller.etcd.election import Election
from tests.replog.server.controller.stores import simulated_etcd


async def test_who_is_not_elected_names_who_is_and_who_is_cut_off_from_etcd_nobody():
    """Nobody names itself by the key of an earlier term, nor whom it heard of last: another one may decide by now."""
    async with simulated_etcd() as address:
        first, second = elections = [
            Election(EtcdClient(H2Transport(), [address]), "/", name, 5, SystemClock(), Random(name))
            for name in ("first:1", "second:1")
        ]
        assert [await election.stand() for election in elections] == [True, False]
        assert second.leader == "first:1"
        assert not await first.stand()
        assert first.leader == ""
    for election in elections:
        with pytest.raises(ReplogError):
            await election.stand()
        assert election.leader == ""
        await election.close()
