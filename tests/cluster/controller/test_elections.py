from dataclasses import replace

import pytest

from cluster.controller.elections import Election, Situation, change_isr, elect, remove_from_isr
from replog.metadata import PartitionState

ALL = (11, 12, 13)


def partition(*isr, leader=11, elr=(), last_known=-1, recovering=False):
    """Replicas 11, 12, 13 at leader epoch 5, partition epoch 9, as in table R-W-C."""
    return PartitionState(ALL, isr, leader, 5, 9, elr, last_known, recovering)


def active(*brokers, min_isr=2, elr=True, unclean=False):
    return Situation(frozenset(brokers), min_isr, elr, unclean)


@pytest.fixture
def after_w_c3():
    return remove_from_isr(partition(11), 11, active(12, 13, elr=False))


def test_on_request_an_unclean_election_needs_no_permission(after_w_c3):
    """R-W-C6, CT-8."""
    after = elect(after_w_c3, active(12, 13, elr=False), Election.UNCLEAN)
    assert (after.leader, after.isr, after.recovering) == (12, (12,), True)


@pytest.fixture
def after_w_c10():
    return remove_from_isr(partition(11, elr=(12,)), 11, active(13))


def test_isr_17_when_every_copy_stopped_uncleanly_the_last_known_leader_leads_again_recovering(after_w_c10):
    """ISR-17."""
    only_11 = remove_from_isr(after_w_c10, 12, active(13), unclean=True)
    nobody = remove_from_isr(only_11, 11, active(12, 13), unclean=True)
    assert (nobody.isr, nobody.elr, nobody.leader, nobody.last_known_leader) == ((), (), -1, 11)
    assert elect(nobody, active(12, 13)) is nobody, "neither 12 nor 13 was the last leader"
    after = elect(nobody, active(11, 12, 13))
    assert (after.isr, after.leader, after.recovering, after.last_known_leader) == ((11,), 11, True, -1)
    assert after.leader_epoch == nobody.leader_epoch + 1


def test_isr_17_the_last_known_leader_leads_as_soon_as_the_last_eligible_replica_is_lost():
    """ISR-17."""
    waiting = PartitionState(ALL, (), -1, 6, 10, (12,), last_known_leader=11)
    after = remove_from_isr(waiting, 12, active(11, 13), unclean=True)
    assert (after.isr, after.elr, after.leader, after.recovering) == ((11,), (), 11, True)


def test_isr_17_where_a_reassignment_took_away_who_led_last_the_last_eligible_replica_leads_again():
    """ISR-17: else nobody ever would, for who led last is no replica any more."""
    cancelled = partition(leader=-1, elr=(12,), last_known=-1)
    nobody = remove_from_isr(cancelled, 12, active(11, 13), unclean=True)
    assert (nobody.isr, nobody.elr, nobody.leader, nobody.last_known_leader) == ((), (), -1, 12)
    after = elect(nobody, active(11, 12, 13))
    assert (after.isr, after.leader, after.recovering, after.last_known_leader) == ((12,), 12, True, -1)


def test_isr_17_the_isr_comes_before_the_elr():
    """ISR-17."""
    state = PartitionState(ALL, (13,), -1, 6, 10, (12,), last_known_leader=13)
    after = elect(state, active(11, 12))
    assert after is state, "13 may have committed since 12 left"
    assert elect(state, active(12, 13)).leader == 13


def test_isr_16_a_leader_alone_in_the_isr_that_restarts_uncleanly_gives_way_to_the_eligible_replica():
    """ISR-16."""
    alone = partition(11, elr=(12,))
    while_12_is_away = remove_from_isr(alone, 11, active(13), unclean=True)
    assert (while_12_is_away.leader, while_12_is_away.elr, while_12_is_away.last_known_leader) == (-1, (12,), 11)
    after = elect(while_12_is_away, active(11, 12, 13))
    assert (after.leader, after.isr, after.elr, after.recovering) == (12, (12,), (), False)
    at_once = remove_from_isr(alone, 11, active(12, 13), unclean=True)
    assert (at_once.leader, at_once.isr, at_once.recovering) == (12, (12,), False)


def test_isr_15_the_elr_is_cleared_once_the_isr_reaches_the_minimum():
    """ISR-15."""
    after = change_isr(partition(11, elr=(12,)), (11, 13), active(*ALL))
    assert (after.isr, after.elr, after.leader_epoch, after.partition_epoch) == ((11, 13), (), 5, 10)


def test_isr_15_an_isr_of_one_meets_a_minimum_of_one_so_an_elected_eligible_replica_leaves_no_elr():
    """ISR-15."""
    state = PartitionState(ALL, (), -1, 6, 10, (11, 12), last_known_leader=11)
    after = elect(state, active(12, min_isr=1))
    assert (after.leader, after.isr, after.elr) == (12, (12,), ()), "12 may now commit alone, without 11"


def test_pr_2_the_minimum_is_never_more_than_the_replicas():
    """PR-2."""
    single = PartitionState((11,), (11,), 11, 5, 9)
    gone = remove_from_isr(single, 11, active(min_isr=2))
    assert (gone.isr, gone.elr, gone.leader) == ((), (11,), -1)
    back = elect(gone, active(11, min_isr=2))
    assert (back.isr, back.elr, back.leader, back.recovering) == ((11,), (), 11, False)


def test_a_single_replica_that_stopped_uncleanly_leads_again_as_unclean():
    single = PartitionState((11,), (11,), 11, 5, 9)
    gone = remove_from_isr(single, 11, active(min_isr=2), unclean=True)
    back = elect(gone, active(11, min_isr=2))
    assert (back.isr, back.leader, back.recovering) == ((11,), 11, True)


def test_ct_8_online_keeps_a_valid_leader_and_never_an_invalid_one():
    """CT-8."""
    kept = partition(*ALL, leader=12)
    assert elect(kept, active(*ALL)) is kept
    assert elect(kept, active(11, 13)).leader == 11
    assert elect(kept, active()).leader == -1


def test_ct_8_preferred_falls_back_to_the_leader_and_then_to_any_valid_replica():
    """CT-8."""
    state = partition(*ALL, leader=13)
    assert elect(state, active(12, 13), Election.PREFERRED) is state
    assert elect(state, active(12), Election.PREFERRED).leader == 12


def test_ct_9_the_leader_epoch_rises_exactly_when_the_leader_field_is_set():
    """CT-9."""
    state = partition(*ALL)
    shrunk = change_isr(state, (11,), active(*ALL))
    grown = change_isr(shrunk, (11, 13), active(*ALL))
    lost = remove_from_isr(remove_from_isr(grown, 11, active(13)), 13, active())
    found = elect(lost, active(13))
    assert [s.leader_epoch for s in (state, shrunk, grown, lost, found)] == [5, 5, 5, 7, 8]
    assert [s.partition_epoch for s in (state, shrunk, grown, lost, found)] == [9, 10, 11, 13, 14]


def test_an_event_that_does_not_concern_a_partition_leaves_it_untouched():
    state = partition(11, 12)
    assert remove_from_isr(state, 13, active(11, 12)) is state
    assert remove_from_isr(state, 13, active(11, 12), unclean=True) is state
    eligible = partition(11, elr=(12,))
    assert remove_from_isr(eligible, 12, active(11, 13)) is eligible, "fencing again does not end eligibility"


def test_sets_of_replicas_are_kept_in_preference_order():
    state = partition(11)
    assert change_isr(state, (13, 11, 12), active(*ALL)).isr == ALL
    full = replace(state, isr=ALL)
    assert change_isr(full, (12, 13, 11), active(*ALL)) is full


def test_ct_7_a_leader_is_in_sync_or_eligible_and_active():
    """CT-7."""
    assert elect(partition(12, 13, leader=-1), active(11, 13)).leader == 13, "11 is not in sync, 12 not active"
    eligible = PartitionState(ALL, (), -1, 6, 10, (12, 13), last_known_leader=11)
    assert elect(eligible, active(11, 13)).leader == 13, "the ISR is empty, 11 not eligible, 12 not active"


def test_ct_8_an_unclean_election_is_the_last_resort_and_makes_its_leader_the_whole_isr():
    """CT-8, ISR-17."""
    waiting = PartitionState(ALL, (), -1, 6, 10, (13,), last_known_leader=11)
    assert elect(waiting, active(11, 13), Election.UNCLEAN).recovering is False, "13 is eligible"
    after = elect(waiting, active(11, 12), Election.UNCLEAN)
    assert (after.leader, after.isr, after.elr, after.last_known_leader) == (11, (11,), (), -1)
    assert (after.recovering, after.leader_epoch, after.partition_epoch) == (True, 7, 11)
    last = PartitionState(ALL, (), -1, 6, 10, (), last_known_leader=12)
    assert elect(last, active(*ALL), Election.UNCLEAN).leader == 12, "the last leader comes before the others"
    assert elect(last, active(), Election.UNCLEAN) is last


def test_ct_8_a_preferred_election_is_never_unclean():
    """CT-8."""
    waiting = PartitionState(ALL, (), -1, 6, 10, (13,), last_known_leader=11)
    assert elect(waiting, active(11, 12, unclean=True), Election.PREFERRED) is waiting


def test_where_unclean_elections_are_allowed_every_event_may_hold_one():
    """CT-12: at the event, and not only when it is tried again."""
    alone = PartitionState(ALL, (11,), 11, 5, 9)
    after = remove_from_isr(alone, 11, active(12, 13, elr=False, unclean=True))
    assert (after.leader, after.isr, after.recovering) == (12, (12,), True)
    kept = remove_from_isr(PartitionState(ALL, (11, 12), 11, 5, 9), 11, active(12, 13, unclean=True))
    assert (kept.leader, kept.isr, kept.recovering) == (12, (12,), False), "a clean leader is there"


def test_ct_10_a_smaller_isr_raises_the_partition_epoch_alone():
    """CT-10."""
    after = change_isr(partition(*ALL), (11,), active(*ALL))
    assert (after.leader_epoch, after.partition_epoch) == (5, 10)


def test_isr_19_without_elr_only_the_last_member_stays():
    """ISR-19."""
    situation = active(13, elr=False)
    two = remove_from_isr(partition(11, 12), 12, situation)
    assert (two.isr, two.elr, two.leader) == ((11,), (), -1), "and 11, not active, does not go on leading"
