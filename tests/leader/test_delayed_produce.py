"""A produce that waits. The tables R-W-P are in tests/scenarios/produce.txt."""

import pytest

from leader.delayed_produce import DelayedProduce, PendingProduce
from replog.errors import ErrorCode
from tests.leader.replicas import TP, leader_of, log_of, produce, state


@pytest.mark.parametrize("acks", [1, -1])
def test_offsets_of_another_epoch_acknowledge_nothing_pr_13(tmp_path, acks):
    """With acks=1 it waits for a flush (LG-18): that of another leader's records says nothing either."""
    leader = leader_of(log_of(tmp_path, "0:0-9"), state(isr=(1,)))
    pending = {0: PendingProduce(TP, produce(leader, acks=1).required_offset, leader_epoch=0, acks=acks)}
    answers: list[dict[int, ErrorCode]] = []
    leader.become_leader(state(epoch=2, partition_epoch=2, isr=(1,)), 101, 0)
    assert leader.log.high_watermark == leader.log.promised_offset == 11
    assert DelayedProduce(pending, lambda _: leader, 1000, answers.append).try_complete([TP])
    assert answers == [{0: ErrorCode.NOT_LEADER_OR_FOLLOWER}]
