"""A record that failed is said to be surely not in the log only if it is surely not there (PR-12)."""

import asyncio
import random

import pytest

from replog.client import DeliveryFailed, Producer
from replog.common.backoff import Backoff
from replog.errors import ErrorCode
from tests.replog.client.network import Network, VirtualLoop

AFTER_THE_APPEND = (  # what a leader answers to a produce that waits for its replicas, if the topic is still there
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)


class Answering(Network):
    """Appends the first batch and answers an error all the same; whatever comes after that is refused."""

    after_append: ErrorCode

    def append(self, address: str, records: bytes) -> tuple[ErrorCode, int]:
        if self.log.log_end_offset:
            return ErrorCode.NOT_ENOUGH_REPLICAS, -1
        assert super().append(address, records)[0] is ErrorCode.NONE
        return self.after_append, -1


class Refusing(Network):
    """Refuses every batch, and appends none."""

    def append(self, address: str, records: bytes) -> tuple[ErrorCode, int]:
        return ErrorCode.NOT_ENOUGH_REPLICAS, -1


def failure(network: Network) -> DeliveryFailed:
    """Send one record through `network`, and return why it failed."""
    network.trouble = False

    async def send() -> DeliveryFailed:
        async with Producer("one:1", transport=network, delivery_timeout_ms=3000) as producer:  # type: ignore[arg-type]
            producer._sender._backoff = Backoff(random.Random(0), 1000, 1000)  # so no try is under way at the deadline
            with pytest.raises(DeliveryFailed, match="not delivered in 3 s; last error: NOT_ENOUGH_REPLICAS") as failed:
                await producer.send_and_wait("t", b"x", partition=0)
        return failed.value

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        failed = runner.run(send())
    network.log.close()
    return failed


def test_a_record_that_every_try_refused_is_surely_not_in_the_log_pr_12(tmp_path):
    network = Refusing(tmp_path / "t-0", random.Random(1))
    assert not failure(network).may_be_appended
    assert network.values() == []


@pytest.mark.parametrize("code", AFTER_THE_APPEND, ids=lambda code: code.name)
def test_an_error_after_the_append_leaves_the_outcome_open_whatever_later_tries_are_told_pr_12(tmp_path, code):
    network = Answering(tmp_path / "t-0", random.Random(1))
    network.after_append = code
    assert failure(network).may_be_appended
    assert network.values() == [b"x"]
