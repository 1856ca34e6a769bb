"""Who leads: INV-2, INV-3, INV-4 and INV-20, broken by hand, and nearly broken."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from leader.isr import IsrProposal, Pending
from replog.log.log import Log
from replog.metadata.values import NO_LEADER
from replog.simulator.checks.checker import Checker
from tests.leader.replicas import record, state
from tests.replog.simulator.checks.tiny import TinyWorld, violates


def test_inv_1_the_isr_is_within_the_replicas(tmp_path):
    world = TinyWorld(tmp_path)
    with violates("INV-1", "[1, 2, 3]", "among [1, 2]"):
        world.record(state(replicas=(1, 2)))


def test_ct_15_a_throttle_is_a_moves(tmp_path):
    world = TinyWorld(tmp_path)
    moving = replace(state(replicas=(1, 2, 3), isr=(1, 2)), adding=(3,), throttle=5)
    world.record(moving)  # nearly
    with violates("CT-15", "its throttle of 5 is left"):
        world.record(replace(moving, adding=(), partition_epoch=1))


def test_inv_2_a_leader_outside_of_the_isr(tmp_path):
    world = TinyWorld(tmp_path)
    world.record(state(leader=NO_LEADER, isr=()))  # nearly
    with violates("INV-2", "leader 1 is not in the ISR [2, 3]"):
        world.record(state(leader=1, epoch=1, partition_epoch=1, isr=(2, 3)))


def test_inv_3_two_brokers_act_in_one_epoch(world):
    with violates("INV-3", "broker 2 acts as the leader of epoch 0", "broker 1"):
        world.lead(2, state(leader=2))


def test_inv_3_a_broker_that_restarts_leads_on_in_its_epoch(world):
    world.start(1, "0:0-4")
    with violates("INV-3", "broker 1 acts as the leader of epoch 0"):
        world.lead(1, state())


def test_inv_3_a_broker_leads_that_was_not_elected(world):
    world.record(state(leader=2, epoch=1, partition_epoch=1, isr=(2, 3)))
    with violates("INV-3", "broker 3 leads in epoch 1, for which 2 was elected"):
        world.lead(3, state(leader=3, epoch=1, partition_epoch=1))


def test_inv_3_an_epoch_is_given_to_another_than_leads_in_it(world):
    world.partition.leaders[1] = (3, object())
    with violates("INV-3", "broker 2 is elected for epoch 1: 3 leads in it"):
        world.record(state(leader=2, epoch=1, partition_epoch=1, isr=(2, 3)))


@pytest.mark.parametrize(
    ("recorded", "words"),
    [
        (state(partition_epoch=2), "partition epoch 2 follows"),
        (state(partition_epoch=0, isr=(1, 2)), "partition epoch 0 follows"),
        (state(leader=2, epoch=2, partition_epoch=1), "leader epoch 2 follows"),
        (state(leader=2, epoch=0, partition_epoch=1), "leader 2 has the epoch 0 of 1"),
        (state(leader=NO_LEADER, epoch=0, partition_epoch=1), "leader -1 has the epoch 0 of 1"),
    ],
)
def test_inv_4_epochs_rise_one_by_one(recorded, words, world):
    with violates("INV-4", words):
        world.record(recorded)


def test_inv_4_a_brokers_leader_epoch_goes_back(world):
    world.record(state(leader=2, epoch=1, partition_epoch=1, isr=(2, 3)))
    world.follow(3, state(leader=2, epoch=1, partition_epoch=1, isr=(2, 3))).leader_epoch = 0
    with violates("INV-4", "broker 3's leader epoch went back from 1 to 0"):
        world.step(3)


def test_inv_4_the_controllers_metadata_goes_back_to_an_older_copy(world):
    world.record(state(partition_epoch=1, isr=(1, 2)))
    image = world.image
    version, image.version = image.version, 0
    world.checker.after_step(world.controller)  # nearly: a new controller that has not loaded its store yet
    image.version = version - 1
    with violates("INV-4", "metadata up to 2, and now 1"):
        world.checker.after_step(world.controller)


def test_st_13_a_leader_has_not_noted_where_its_epoch_begins(world, monkeypatch):
    monkeypatch.setattr(Log, "assign_epoch_start", lambda *_, **__: None)
    elected = state(leader=2, epoch=1, partition_epoch=1)
    world.record(elected)
    with violates("ST-13", "broker 2 leads in epoch 1"):
        world.lead(2, elected)


def test_st_13_the_next_epoch_is_noted_before_it_is_led_in(world):
    """Divergence 26, nearly: broker 1 hears of epoch 1 and of epoch 2, in which it leads too, at one moment."""
    world.record(state(epoch=1, partition_epoch=1))
    world.record(state(epoch=2, partition_epoch=2))
    leader, log = world.leader(1), world.hosted(1).log
    leader.become_leader(state(epoch=1, partition_epoch=1), 101, world.clock.monotonic_ms())
    log.assign_epoch_start(2, save=False)
    assert log.epochs.entries[-1] == (2, 5)
    world.step(1)
    world.record(state(leader=2, epoch=3, partition_epoch=3))
    log.assign_epoch_start(3)
    with violates("INV-1", "broker 1 is in epoch 1, and its cache has (3, 5)"):
        world.step(1)


@pytest.mark.parametrize("how", ["fenced", "leaving"])
def test_inv_20_a_broker_that_is_not_active_joins_the_isr(how, world):
    world.record(state(partition_epoch=1, isr=(1, 2)))
    world.register(3, broker_epoch=103, **{how: True})
    with violates("INV-20", "broker 3"):
        world.record(state(partition_epoch=2))


def test_ct_6_a_broker_that_is_not_active_stays_in_the_isr(world):
    world.register(3, broker_epoch=103, leaving=True)
    with violates("CT-6", "broker 3"):
        world.record(state(partition_epoch=1, isr=(1, 3)))


def test_ct_6_the_last_one_in_sync_is_waited_for_where_nobody_is_eligible_instead(world):
    """CT-6, nearly (ISR-19)"""
    world.checker = Checker(world, eligible_leader_replicas=False)
    world.register(3, broker_epoch=103, fenced=True)
    world.record(state(partition_epoch=1, isr=(3,), leader=-1, epoch=1))
    world.checker = Checker(world)
    with violates("CT-6", "broker 3"):
        world.record(state(partition_epoch=1, isr=(3,), leader=-1, epoch=1))


@pytest.mark.parametrize(("fetched", "violated"), [(103, True), (104, False), (-1, False)])
def test_inv_20_a_broker_joins_for_what_its_last_incarnation_fetched(fetched, violated, world):
    """Before 104 it was 103, and its disk may be another one (ISR-14)."""
    world.record(state(partition_epoch=1, isr=(1, 2)))
    leader = world.lead(1, state(partition_epoch=1, isr=(1, 2)))
    leader.state = Pending(frozenset({1, 2}), IsrProposal(0, 1, ((1, 101), (2, 102), (3, fetched))), frozenset({3}))
    world.step(1)
    world.register(3, broker_epoch=104)
    refused = violates("INV-20", "broker 3 joins", "fetched in broker epoch 103", "with 104")
    with refused if violated else nullcontext():
        world.record(state(partition_epoch=2))


def test_inv_20_a_leader_takes_a_fetch_of_an_incarnation_that_it_knows_is_over(world):
    broker, leader = world.brokers[1], world.leader(1)
    world.append(1)
    broker.image.brokers[3] = replace(broker.image.brokers[3], broker_epoch=203)
    broker.image.version += 1
    world.append(1)  # nearly: what it knows of broker 3 is older than that
    world.clock.now_ms += 1
    world.fetch(1, 3, broker_epoch=203)
    leader.replicas[3] = leader.replicas[3]._replace(broker_epoch=103)
    leader.append_records_to_leader(record(), acks=1, wall_ms=0, now_ms=world.clock.monotonic_ms())
    with violates("INV-20", "leader 1", "broker 3 in broker epoch 103", "registered with 203"):
        world.step(1)
