"""A broker of a scenario: the real replica manager, with the scenario's clock in the place of an event loop."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster.broker.delayed import DelayedOperations
from cluster.broker.partition import HostedPartition
from cluster.broker.replica_manager import ReplicaManager
from cluster.metadata_image import MetadataImage
from follower.partition import PartitionFollower
from leader.alter_partition_queue import AlterPartitionQueue
from leader.delayed_fetch import DelayedFetch, FetchRow
from leader.fetch_sizes import FetchRound, read_partitions
from leader.isr import IsrProposal
from leader.partition import FollowerRead, PartitionLeader
from replog.config import BrokerConfig
from replog.errors import ErrorCode
from replog.fetch import FetchAnswer, FetchPartition
from replog.log.log import Log
from replog.log.offsets import Isolation
from replog.metadata import PartitionState
from replog.topic import TopicPartition
from tests.leader.replicas import NOW_MS, ONE_MIB

Requests = dict[TopicPartition, FetchPartition]


class ScenarioClock:
    """Milliseconds since the scenario began."""

    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return NOW_MS + self.now_ms

    def wall_ms(self) -> int:
        return NOW_MS + self.now_ms


class WaitingRequests(DelayedOperations):
    """A purgatory whose deadlines come when the scenario's clock reaches them."""

    def _arm(self) -> None:
        """No timer: `expire` is called."""

    @property
    def next_deadline_ms(self) -> int | None:
        return self._purgatory.next_deadline_ms()

    @property
    def sizes(self) -> tuple[int, int]:
        """Entries in the lists of all keys, and requests that wait (PG-13)."""
        return self._purgatory.size, self._purgatory.delayed

    def expire(self) -> None:
        self._expire()


class Broker(ReplicaManager):
    """One broker. What an event touches is checked by `settle`, as it is once the event loop has a moment (PR-6)."""

    def __init__(
        self,
        broker_id: int,
        directory: Path,
        image: MetadataImage,
        clock: ScenarioClock,
        submit: Callable[[TopicPartition, IsrProposal], None],
        **settings: Any,
    ) -> None:
        config = BrokerConfig.model_construct(
            **{**BrokerConfig(node_id=broker_id, log_dirs=directory).model_dump(), **settings}
        )
        super().__init__(config, image, clock, submit, self._fail)
        self.id = broker_id
        self.produces = WaitingRequests(clock)
        self.fetches = WaitingRequests(clock)
        self.record_deletions = WaitingRequests(clock)
        self.proposals = AlterPartitionQueue()
        self.sent: dict[TopicPartition, IsrProposal] | None = None  # to the controller, not answered yet
        self.hears_metadata = True
        self.alive = True

    @staticmethod
    def _fail(error: Exception) -> None:
        raise error

    def touched(self, tp: TopicPartition, high_watermark_advanced: bool) -> None:
        self._moved[tp] = self._moved.get(tp, False) or high_watermark_advanced

    def settle(self) -> bool:
        """Do what the last events set off; whether there was anything."""
        any_moved = bool(self._moved)
        self._drain()
        return any_moved

    @property
    def purgatories(self) -> tuple[WaitingRequests, ...]:
        return self.produces, self.fetches, self.record_deletions

    def host(self, tp: TopicPartition, log: Log) -> None:
        self.hosted[tp] = HostedPartition(tp, b"", log)

    def apply(self, tp: TopicPartition, state: PartitionState) -> None:
        """Take up the role that a metadata record gives this broker (2.3)."""
        hosted, now_ms = self.hosted[tp], self.clock.monotonic_ms()
        registered = self.image.broker(self.id)
        if state.leader == self.id:
            if hosted.leader is None:
                hosted.leader = PartitionLeader(
                    tp, self.id, hosted.log, self.image, replica_lag_time_max_ms=self.config.replica_lag_time_max_ms
                )
            hosted.follower = None
            hosted.leader.become_leader(state, registered.broker_epoch, now_ms)
            self.propose(tp, hosted.leader)
        else:
            hosted.leader = None
            if hosted.follower is None:
                hosted.follower = PartitionFollower(tp, hosted.log, backoff_ms=self.config.replica_fetch_backoff_ms)
            hosted.follower.become_follower(state, now_ms)
        self.role_changed(tp)

    def answer_follower(
        self,
        replica_id: int,
        broker_epoch: int,
        requests: Requests,
        respond: Callable[[dict[TopicPartition, FetchAnswer]], None],
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 10 * ONE_MIB,
    ) -> bool:
        """A follower's fetch: answered now, or waiting for data (FE-11). True if it waits."""

        def read_all(*, first: bool) -> FetchRound:
            def read(tp: TopicPartition, request: FetchPartition, limit: int, min_one: bool) -> FollowerRead:
                leader = self.leader_for_epoch(tp, request.current_leader_epoch)
                if isinstance(leader, ErrorCode):
                    return FollowerRead(FetchAnswer(leader))
                found = leader.fetch_as_follower(
                    replica_id,
                    broker_epoch,
                    request,
                    max_bytes=limit,
                    min_one=min_one,
                    now_ms=self.clock.monotonic_ms(),
                    record_progress=first,
                )
                if found.high_watermark_advanced or found.log_start_changed:
                    self.touched(tp, high_watermark_advanced=True)
                self.propose(tp, leader)
                return found

            return read_partitions(requests.items(), read, max_bytes)

        def answer(found: FetchRound) -> None:
            respond({tp: read.answer for tp, read in found.reads.items()})

        found = read_all(first=True)
        if found.answers_at_once(max_wait_ms=max_wait_ms, min_bytes=min_bytes):
            answer(found)
            return False
        rows = [FetchRow(tp, request, found.reads[tp].metadata) for tp, request in requests.items()]
        operation = DelayedFetch(
            rows, Isolation.LOG_END, min_bytes, self.leader, max_wait_ms, lambda: answer(read_all(first=False))
        )
        self.fetches.complete_or_watch(operation, requests)
        return not operation.completed
