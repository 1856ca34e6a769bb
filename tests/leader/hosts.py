"""A broker around one fetch session, for the tests of both kinds of sessions."""

from pathlib import Path
from typing import Any

from leader.fetch_session import FetchSession
from leader.partition_leader import PartitionLeader
from replog.errors import ErrorCode
from replog.log.fetch import FetchPartition, Shared
from replog.log.files.cold import ColdRead
from replog.topic import TopicPartition
from tests.leader.replicas import NOW_MS, leader_of, log_of, state

EPOCH = 3


def named(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def leaders_of(directory: Path, partitions: int) -> dict[TopicPartition, PartitionLeader]:
    """Leaders of so many partitions, each with records 0 to 9, all committed."""
    return {
        named(number): leader_of(
            log_of(directory / str(number), f"{EPOCH}:0-9", high_watermark=10), state(epoch=EPOCH, isr=(1, 2))
        )
        for number in range(partitions)
    }


class SessionHost:
    """It leads some partitions; a subclass opens the `session`."""

    session: FetchSession[Any]
    shared: Shared | None = None

    def __init__(self, directory: Path, partitions: int) -> None:
        self.leaders = leaders_of(directory, partitions)
        self.watched: dict[TopicPartition, None] = {}
        self.wanted: dict[TopicPartition, ColdRead] = {}
        self.looks = 0
        self.touched: set[int] = set()  # by the step that runs, or ran last
        self.goes_on = False
        self.now_ms = NOW_MS

    def leader_for_fetch(self, tp: TopicPartition, fetch: FetchPartition) -> PartitionLeader | ErrorCode:
        self.looks += 1
        self.touched.add(tp.partition)
        return self.leaders.get(tp, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def watch(self, tp: TopicPartition, session: FetchSession[Any]) -> None:
        self.watched[tp] = None

    def unwatch(self, tp: TopicPartition, session: FetchSession[Any]) -> None:
        del self.watched[tp]

    def go_on(self, session: FetchSession[Any]) -> None:
        self.goes_on = True

    def bring(self, tp: TopicPartition, session: FetchSession[Any], cold: ColdRead) -> None:
        self.wanted[tp] = cold

    def mark(self, number: int) -> None:
        """Something happened to this partition."""
        self.session.mark(named(number))
        self.session.on_moved(self.now_ms)
