"""Reads what the fetches of a connection ask for: each is the difference to the one before (KIP-227).

A connection has one session, which ends with it: a client that names it on another connection is told that it is not
there, and begins another one. A request without a session is a full one, and differs from the last one like others."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from leader.fetch_session import CachedPartition
from replog.errors import ErrorCode
from replog.log.fetch import ANY_TOPIC, FetchPartition
from replog.log.offsets import NO_EPOCH, Isolation
from replog.rpc.limits import MAX_PARTITIONS_PER_REQUEST
from replog.server.work import SLICE
from replog.topic import TopicPartition

BY_ID = 13  # this version and later ones name topics by their ids
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
LAST_EPOCH = 2**31 - 1
_ISOLATION = {0: Isolation.HIGH_WATERMARK, 1: Isolation.TXN_COMMITTED}


def isolation_of(level: int) -> Isolation:
    """Return what a reader of this isolation level sees. Raises INVALID_REQUEST."""
    if level not in _ISOLATION:
        raise ErrorCode.INVALID_REQUEST.error(f"isolation level {level} is none that is known")
    return _ISOLATION[level]


def epoch_or_none(epoch: int) -> int | None:
    return None if epoch == NO_EPOCH else epoch


class FetchRequests:
    """`read` takes a request over; what it changes is then in the attributes."""

    def __init__(self, name_of: Callable[[bytes], str | None]) -> None:
        """`name_of` returns the name of the topic that has this id now."""
        self.session_id = 0  # 0: there is no session
        self.is_full = True  # the answer has all partitions, not only those with news
        self.wanted: dict[TopicPartition, FetchPartition] = {}  # the partitions that a request names
        self.named: dict[TopicPartition, FetchPartition] = {}  # among them, they are new or changed
        self.forgotten: list[TopicPartition] = []
        self.unknown: dict[tuple[bytes, int], FetchPartition] = {}  # their topics have no name that is known
        self._name_of = name_of
        self._names: dict[bytes, str] = {}  # also of topics that are gone, until the next full request
        self._sessions = 0  # made so far
        self._epoch = 0
        self._by_id = False

    def read(self, message: Any, version: int, known: Mapping[TopicPartition, CachedPartition]) -> Iterator[None]:
        """Read a request, in slices; `known` is what the one before it asked for.

        Raises FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR and
        INVALID_REQUEST. The client then begins a new session."""
        self._begin(message, version)
        self.wanted = wanted = dict[TopicPartition, FetchPartition]()
        for topic_id, number in tuple(self.unknown):
            if (name := self._name(topic_id)) is not None:
                wanted[TopicPartition(name, number)] = self.unknown.pop((topic_id, number))
        count = 0
        for topic in message.topics:
            topic_id = topic.topic_id if self._by_id else ANY_TOPIC
            name = self._name(topic_id) if self._by_id else topic.topic
            for each in topic.partitions:
                fetch = _fetch_partition(each, topic_id)
                if name is None:
                    self.unknown[topic_id, each.partition] = fetch
                else:
                    wanted[TopicPartition(name, each.partition)] = fetch
                count += 1
                if not count % SLICE:
                    yield
        if count > MAX_PARTITIONS_PER_REQUEST or len(self.unknown) > MAX_PARTITIONS_PER_REQUEST:
            raise ErrorCode.INVALID_REQUEST.error(f"at most {MAX_PARTITIONS_PER_REQUEST} partitions in one fetch")
        if self.is_full:
            self.forgotten = [tp for tp in known if tp not in wanted]
        else:
            self.forgotten = list(self._forgotten(message, known))
        dropped = set(self.forgotten)
        self.named = {
            tp: fetch
            for tp, fetch in wanted.items()
            if (was := known.get(tp)) is None or was.request != fetch or tp in dropped
        }

    def _begin(self, message: Any, version: int) -> None:
        epoch = message.session_epoch
        self.is_full = epoch in (INITIAL_EPOCH, FINAL_EPOCH)
        if self.is_full:
            self._sessions += epoch == INITIAL_EPOCH
            self.session_id = self._sessions if epoch == INITIAL_EPOCH else 0
            self._epoch, self._by_id = INITIAL_EPOCH, version >= BY_ID
            self._names.clear()
            self.unknown.clear()
        elif not self.session_id or message.session_id != self.session_id:
            raise ErrorCode.FETCH_SESSION_ID_NOT_FOUND.error(f"this connection has no session {message.session_id}")
        elif epoch != self._epoch:
            raise ErrorCode.INVALID_FETCH_SESSION_EPOCH.error(f"the session is at epoch {self._epoch}, not {epoch}")
        elif self._by_id != (version >= BY_ID):
            raise ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR.error("a session names topics as its first request does")
        self._epoch = self._epoch % LAST_EPOCH + 1

    def _name(self, topic_id: bytes) -> str | None:
        if (name := self._names.get(topic_id)) is None and (name := self._name_of(topic_id)) is not None:
            self._names[topic_id] = name
        return name

    def _forgotten(self, message: Any, known: Mapping[TopicPartition, CachedPartition]) -> Iterator[TopicPartition]:
        for topic in message.forgotten_topics_data:
            topic_id = topic.topic_id if self._by_id else ANY_TOPIC
            name = self._names.get(topic_id, "") if self._by_id else topic.topic
            for number in topic.partitions:
                self.unknown.pop((topic_id, number), None)
                was = known.get(TopicPartition(name, number))
                if was is not None and was.request.topic_id == topic_id:  # else another topic has its name by now
                    yield TopicPartition(name, number)

    def end(self) -> None:
        """End the session, after an error: the client does not know what was taken over."""
        self.session_id = 0


def _fetch_partition(asked: Any, topic_id: bytes) -> FetchPartition:
    return FetchPartition(
        asked.fetch_offset,
        max(0, asked.partition_max_bytes),
        epoch_or_none(asked.current_leader_epoch),
        epoch_or_none(asked.last_fetched_epoch),
        topic_id=topic_id,
    )
