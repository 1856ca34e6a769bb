"""A consumer's fetch session: it reads what is committed, from a leader or, if allowed, a follower (FE-7, FE-20)."""

from collections.abc import Callable
from typing import Protocol

from leader.delayed_fetch import Reader
from leader.fetch_session import FetchSession, Host
from leader.partition_leader import PartitionLeader
from replog.errors import ErrorCode
from replog.log.fetch import FetchAnswer, FetchPartition, Reading, SessionRequest
from replog.log.offsets import Isolation
from replog.topic import TopicPartition


class ConsumerReader(Reader, Protocol):
    """The leader's role, or a follower's."""

    def fetch_as_consumer(self, request: FetchPartition, isolation: Isolation, how: Reading) -> FetchAnswer: ...


Served = Callable[[TopicPartition, FetchPartition], ConsumerReader | ErrorCode]


class Readers(Protocol):
    """The roles of this broker."""

    def leader_for_fetch(self, tp: TopicPartition, fetch: FetchPartition) -> PartitionLeader | ErrorCode: ...

    def reader_for_fetch(self, tp: TopicPartition, fetch: FetchPartition) -> ConsumerReader | ErrorCode:
        """Return the leader, or a follower that the consumer may be sent to (FE-20), or the first error."""

    def is_alone(self, leader: PartitionLeader) -> bool:
        """Return True if another broker may lead by now (divergence 29)."""

    def misses_controller(self) -> bool:
        """Return True if any leader here may be alone."""


class ConsumerSession(FetchSession[ConsumerReader]):
    """`on_ready` is called when the waiting request must be answered, at the latest at `deadline_ms`."""

    is_bounded = True

    def __init__(
        self,
        host: Host,
        readers: Readers,
        on_ready: Callable[[], None],
        *,
        max_bytes: int,
        max_wait_ms: int,
        cold_wait_ms: int = 0,
        permits: Callable[[str], bool] = lambda _topic: True,
    ) -> None:
        """`permits` is asked at every look and says if the reader may read a topic."""
        self._permits = permits
        reader = self._permitted(readers.leader_for_fetch)
        super().__init__(host, reader, max_bytes=max_bytes, max_wait_ms=max_wait_ms, cold_wait_ms=cold_wait_ms)
        self._readers = readers
        self._on_ready = on_ready
        self._rack: str | None = None

    def on_request(self, request: SessionRequest) -> None:
        """Take over the changes. The caller then calls `ask`, with room if anything is due, and answers a request that
        waits by `answer`, after `on_ready`."""
        terms = request.isolation, request.rack
        if terms != (self.isolation, self._rack) or self._readers.misses_controller():
            self.isolation, self._rack = terms
            of_leaders = self._rack is None
            self.reader = self._permitted(
                self._readers.leader_for_fetch if of_leaders else self._readers.reader_for_fetch
            )
            for tp in self.named:
                self.mark(tp)
        self._change(request)

    def _permitted(self, reader: Served) -> Served:
        permits = self._permits
        return lambda tp, fetch: reader(tp, fetch) if permits(tp.topic) else ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def _fetch(
        self,
        tp: TopicPartition,
        fetch: FetchPartition,
        reader: ConsumerReader,
        how: Reading,
        now_ms: int,
        *,
        counts: bool,
    ) -> FetchAnswer:
        if not isinstance(reader, PartitionLeader):
            return reader.fetch_as_consumer(fetch, self.isolation, how)
        alone = self._readers.is_alone(reader)
        return reader.fetch_as_consumer(fetch, self.isolation, how, client_rack=self._rack or "", alone=alone)

    def _has_all(self, _reader: ConsumerReader, fetch: FetchPartition, answer: FetchAnswer) -> bool:
        committed_only = self.isolation is Isolation.TXN_COMMITTED
        return fetch.fetch_offset >= (answer.last_stable_offset if committed_only else answer.high_watermark)

    def _ready(self, now_ms: int) -> None:
        self._on_ready()
