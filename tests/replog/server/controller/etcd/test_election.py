"""Elections over one etcd, the simulator's: to whom callers are sent by who does not decide."""

import pytest

from replog.errors import ReplogError
from replog.rpc.transports import H2Transport
from replog.server.clock import SystemClock
from replog.server.controller.etcd.client import EtcdClient
from replog.server.controller.etcd.election import Election, Leadership
from tests.replog.server.controller.stores import simulated_etcd


async def test_who_is_not_elected_names_who_is_and_who_is_cut_off_from_etcd_nobody():
    """Nobody names itself by the key of an earlier term, nor whom it heard of last: another one may decide by now."""
    async with simulated_etcd() as address:
        first, second = elections = [
            Election(EtcdClient(H2Transport(), [address]), "/", name, 5, SystemClock())
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


def test_nobody_leads_unelected():
    leadership = Leadership()
    leadership.renewed(1000, 5000)
    assert leadership.left_ms(1001) == 0


def test_a_belief_ends_before_the_lease_that_was_asked_for_then_can_end():
    leadership = Leadership()
    leadership.elected(7, asked_ms=1000, lease_ms=5000)
    assert leadership.epoch == 7
    assert leadership.left_ms(1000) == 4500, "a tenth less: clocks differ"
    assert leadership.left_ms(5499) == 1
    assert leadership.left_ms(5500) == 0


def test_a_renewal_counts_from_when_it_was_asked_for_and_never_shortens():
    leadership = Leadership()
    leadership.elected(7, asked_ms=1000, lease_ms=5000)
    leadership.renewed(2000, 5000)
    assert leadership.left_ms(2500) == 4000
    leadership.renewed(1500, 5000)
    assert leadership.left_ms(2500) == 4000, "an answer that came late"


def test_who_has_resigned_does_not_lead_by_a_late_answer():
    leadership = Leadership()
    leadership.elected(7, asked_ms=1000, lease_ms=5000)
    leadership.end()
    leadership.renewed(2000, 5000)
    assert leadership.left_ms(2001) == 0


def test_a_renewal_is_due_long_before_the_end():
    leadership = Leadership()
    leadership.elected(7, asked_ms=0, lease_ms=6000)
    assert leadership.renew_ms == 2000
