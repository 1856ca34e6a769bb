"""A leader asks to lead no more: who may lead in its place, and how often that may be (CT-22)."""

import contextlib

import pytest

from replog.controller.alter_partition import INTERVAL_MS, Resignations
from replog.controller.elections import Situation
from replog.errors import ErrorCode
from replog.metadata.values import PartitionState
from replog.rpc import methods
from replog.rpc.transports import H2Transport
from replog.server.broker.identity import Identity, PresenceService
from replog.topic import TopicPartition

TP = TopicPartition("t", 0)
ALL = frozenset({11, 12, 13, 14})


def state(isr, elr=(), replicas=(11, 12, 13)):
    return PartitionState(replicas, isr, 11, leader_epoch=5, partition_epoch=9, elr=elr)


def resign(before, *, minimum=2, active=ALL, present=ALL, resignations=None, now_ms=0):
    return (resignations or Resignations()).resign(TP, before, Situation(active, minimum), present, now_ms)


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        (state((11, 12)), {"minimum": 1}),
        (state((11, 12), replicas=(11, 12)), {"minimum": 1}),
        (state((11,), replicas=(11,)), {"minimum": 1}),
        (state((11, 12, 13)), {"minimum": 3}),
        (state((11, 12, 13)), {"minimum": 7}),
        (state((11, 12, 13)), {"present": frozenset({12})}),
        (state((11, 12, 13)), {"active": ALL - {13}}),
        (state((11, 12), elr=(13, 14), replicas=(11, 12, 13, 14)), {"minimum": 3}),
    ],
    ids=["two in sync", "two replicas", "one", "minimum", "minimum above replicas", "absent", "fenced", "isr first"],
)
def test_ct_22_too_few_could_go_on(before, changes):
    """CT-22: with one of two nothing is gained, and what was acknowledged with acks=1 would be lost. Who had to stay
    may go as soon as enough are there."""
    resignations = Resignations()
    assert resign(before, resignations=resignations, **changes) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert not isinstance(resign(state((11, 12, 13)), resignations=resignations), ErrorCode)


def test_ct_22_once_within_the_interval_and_then_nothing_is_remembered():
    """CT-22."""
    resignations = Resignations()
    assert not isinstance(resign(state((11, 12, 13)), resignations=resignations), ErrorCode)
    again = {"resignations": resignations, "now_ms": INTERVAL_MS - 1}
    assert resign(state((11, 12, 13)), **again) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert not isinstance(resign(state((11, 12, 13)), **again | {"now_ms": INTERVAL_MS}), ErrorCode)
    assert not resignations.has_just(TP, 2 * INTERVAL_MS)
    assert not resignations._granted_ms


# The whole call, against a cluster


def test_ct_22_a_leader_takes_nobody_along_when_it_leaves(three):
    """CT-22, row 8 of §6.4."""
    assert three.alter(11, three.item([12]), present=(12, 13))[0].error is ErrorCode.INVALID_REQUEST
    assert three.alter(11, three.item([]), present=(12, 13))[0].error is ErrorCode.INVALID_REQUEST
    assert three.partition().leader == 11


def test_ct_23_it_leaves_the_in_sync_sets_that_those_lead_whom_it_does_not_hear(make_cluster):
    """CT-23: they would wait for it as long as a follower may lag; where no two would be left they do."""
    five = make_cluster().start(11, 12, 13, 14, 15)
    five.assigned("t", [11, 12, 13])
    five.assigned("u", [12, 11, 13], [14, 11, 13], [12, 13, 14], [11, 14, 15])
    five.assigned("v", [12, 11])
    five.assigned("w", [12, 11, 13], configs={"min.insync.replicas": "3"})
    others = [("u", 1), ("u", 2), ("u", 3), ("v", 0), ("w", 0)]
    before = [five.partition(*other) for other in others]
    five.alter(11, five.item([12, 13]), present=(12, 13))
    changed = five.partition("u", 0)
    assert (changed.isr, changed.leader, changed.leader_epoch, changed.partition_epoch) == ((12, 13), 12, 0, 1)
    assert [five.partition(*other) for other in others] == before


def test_ct_23_one_that_is_not_relieved_stays_where_it_follows(three):
    """CT-23."""
    three.assigned("u", [12, 11, 13])
    three.alter(11, three.item([12, 13]), present=(12,))
    assert three.partition("u").isr == (12, 11, 13)


@pytest.mark.parametrize("alive", [(2, 3), (2,)])
async def test_ct_22_those_who_would_lead_are_asked_on_real_connections(running, alive):
    """CT-22: their sessions last for ten minutes."""
    async with running(broker_session_timeout_ms=600_000) as r, contextlib.AsyncExitStack() as servers:
        for broker_id in (1, 2, 3):
            incarnation = bytes([broker_id]) * 16
            server = H2Transport().listen("127.0.0.1:0")
            server.add(methods.PRESENCE, PresenceService(Identity(broker_id, incarnation)))
            address = await server.start()
            if broker_id in alive:
                servers.push_async_callback(server.stop, 0)
            else:
                await server.stop(0)
            await r.register(broker_id, incarnation, address)
            await r.heartbeat(broker_id)
        await r.assigned("t", [1, 2, 3])
        expected = (ErrorCode.NEW_LEADER_ELECTED, 2) if 3 in alive else (ErrorCode.NOT_ENOUGH_REPLICAS, 1)
        assert (await r.propose([2, 3]), r.partition().leader) == expected
