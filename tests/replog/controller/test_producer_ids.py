"""Blocks of producer ids: none is ever given twice, and only a broker in good standing gets one."""

import pytest

from replog.controller.cluster_state import BLOCK_SIZE, MAX_PRODUCER_ID
from replog.errors import ErrorCode
from replog.metadata.changes import Change


def allocate(cluster, broker_id, epoch=None):
    if epoch is None:
        epoch = cluster.image.brokers[broker_id].broker_epoch
    first = cluster.do(cluster.state.allocate_producer_ids(cluster.claim(broker_id, epoch)))
    return range(first, first + BLOCK_SIZE)


def test_every_block_begins_where_the_last_one_ended_whoever_asks(three):
    assert [allocate(three, broker) for broker in (11, 12, 11, 13)] == [
        range(first, first + 1000) for first in (0, 1000, 2000, 3000)
    ]


def test_what_was_given_away_is_in_the_records_and_outlives_the_controller(three, make_cluster):
    given = allocate(three, 11)
    candidate = make_cluster()
    candidate.state.load(three.history, 0)
    assert candidate.image.next_producer_id == given.stop
    assert allocate(candidate, 12).start == given.stop


def test_unknown_and_replaced_brokers_get_none_ct_3(three, refused):
    """CT-3."""
    with refused(ErrorCode.STALE_BROKER_EPOCH, "broker 99 is not registered"):
        allocate(three, 99, epoch=1)
    epoch = three.image.brokers[11].broker_epoch
    with refused(ErrorCode.STALE_BROKER_EPOCH, f"not by this one under epoch {epoch - 1}"):
        allocate(three, 11, epoch=epoch - 1)


def test_a_fenced_broker_gets_none_until_it_is_back(three, refused):
    three.expire(11)
    with refused(ErrorCode.BROKER_NOT_AVAILABLE, "broker 11 is fenced"):
        allocate(three, 11)
    three.heartbeat(11)
    assert len(allocate(three, 11)) == BLOCK_SIZE


@pytest.mark.parametrize("left", [BLOCK_SIZE - 1, 1, 0])
def test_ids_end_before_they_would_overflow(three, refused, left):
    three.apply([Change("producer_ids", None, MAX_PRODUCER_ID - BLOCK_SIZE)])
    assert allocate(three, 11)[-1] == MAX_PRODUCER_ID - 1
    three.apply([Change("producer_ids", None, MAX_PRODUCER_ID - left)])
    with refused(ErrorCode.UNKNOWN_SERVER_ERROR, "every producer id"):
        allocate(three, 11)
