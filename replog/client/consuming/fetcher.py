"""Fetches ahead of the application: it resolves positions, follows leaders, and keeps a bounded buffer.

A leader may name a follower in the client's rack. That is then read for `METADATA_MAX_AGE_S`, or until its first error
or silence. Its errors are not the partition's, and only a leader's answer resets a position (FE-20, FE-21)."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Set
from typing import Protocol, TypeVar, cast

from replog.client.consuming.fetch_stream import AssignedPartition, Chunk, Fetch, FetchSettings, FetchStream
from replog.client.counts import ConsumerCounts
from replog.client.metadata import Leader, Metadata
from replog.client.offsets import EARLIEST, list_offsets_once
from replog.client.records import Record, Undecodable, decode_fetched
from replog.common.backoff import Backoff, FetchSize
from replog.errors import ErrorCode, PositionError, ReplogError
from replog.log.formats.batch import iterate_batches
from replog.log.offsets import AbortedTransaction, Buffer
from replog.rpc.v1 import log_pb2
from replog.topic import TopicPartition

logger = logging.getLogger(__name__)

METADATA_MAX_AGE_S = 300.0
LEADER_ONLY_S = 10.0  # how long only the leader is read after a follower failed
MAX_EPOCHS = 8  # the newest of a partition: an application goes back no further than to the records it got last
POSITION_TIMEOUT_S = 3.0  # then ListOffsets is called again


class Decodes(Protocol):
    """A decoded chunk."""

    @property
    def next_offset(self) -> int:
        """The offset to go on from; the one asked for if there was no whole batch."""


D = TypeVar("D", bound=Decodes)
Decode = Callable[[Buffer, str, int, int, tuple[AbortedTransaction, ...]], D]
"""Decodes batches of a topic's partition from an offset on, without aborted ones. Raises CORRUPT_MESSAGE."""


class LogTruncated(PositionError):
    """The log no longer holds what was consumed: it was cut at `diverging_offset`; -1: not known where."""

    def __init__(self, partition: TopicPartition, position: int, diverging_offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition} was truncated: it diverges at offset {diverging_offset} from what was consumed up to "
            f"{position}; seek to go on",
        )
        self.partition = partition
        self.position = position
        self.diverging_offset = diverging_offset


class TopicRecreated(LogTruncated):
    """The topic was deleted, and another one made under its name."""

    def __init__(self, partition: TopicPartition, position: int) -> None:
        super().__init__(partition, position, 0)
        self.message = (
            f"topic {partition.topic!r} was deleted and made again: what was consumed of {partition} up to {position} "
            "is gone; seek to go on in the new one"
        )


class Fetcher:
    """Fetches from the first assignment until `close`; `take` returns what has arrived."""

    def __init__(self, metadata: Metadata, backoff: Backoff, settings: FetchSettings) -> None:
        self.metadata = metadata
        self.settings = settings
        self.states: dict[TopicPartition, AssignedPartition] = {}
        self.news = asyncio.Event()  # a chunk, a position or an error
        self.size = FetchSize(settings.max_bytes)
        self.counts = ConsumerCounts()
        self._backoff = backoff
        self._streams: dict[str, FetchStream] = {}  # keys are broker addresses
        self._chunks: deque[Chunk] = deque()
        self._current: tuple[AssignedPartition, deque[Record], int] | None = None  # records to take; the offset after
        self._failed: list[AssignedPartition] = []
        self._suspicious = False  # a leader is silent
        self.paused: set[TopicPartition] = set()
        self._missing: Set[str] = frozenset()  # topics and partitions that do not exist, by the last log line
        self._stale = asyncio.Event()  # positions or leaders are missing
        metadata.on_change = self._stale.set  # otherwise streams would not follow the leaders
        self._task: asyncio.Task[None] | None = None

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch exactly these; known ones go on, new ones start by the reset policy."""
        old, self.states = self.states, {}
        partitions = list(partitions)
        self.paused.intersection_update(partitions)
        for partition in partitions:
            self.states[partition] = old.get(partition) or self._fresh(partition)
        self._changed()

    async def close(self) -> None:
        tasks = [stream.task for stream in self._streams.values()]
        for stream in self._streams.values():
            stream.stop()
        if self._task is not None:
            self._task.cancel()
            tasks.append(self._task)
        await asyncio.gather(*tasks, return_exceptions=True)
        self._chunks.clear()
        self._current = None
        self.news.set()

    # Fetch streams call these.

    def _source(self, state: AssignedPartition) -> Leader | None:
        """Return the broker to read from: the replica that the leader named, for a while, else the leader (FE-20)."""
        leader = self.metadata.view.leader(state.partition)
        if leader is None or state.read_replica is None:
            return leader
        broker_id, until = state.read_replica
        address = self.metadata.view.brokers.get(broker_id)
        if address is None or until <= asyncio.get_running_loop().time():
            state.read_replica = None
            return leader
        return Leader(broker_id, address, leader.epoch)

    def fetch_request(self) -> log_pb2.FetchRequest:
        return log_pb2.FetchRequest(
            max_wait_ms=self.settings.max_wait_ms,
            min_bytes=self.settings.min_bytes,
            max_bytes=self.size.bytes,
            isolation_level=log_pb2.READ_COMMITTED if self.settings.read_committed else log_pb2.READ_UNCOMMITTED,
        )

    def released(self) -> None:
        self._stale.set()

    def answered(self, stream: FetchStream, state: AssignedPartition, answer: log_pb2.FetchPartitionResult) -> bool:
        if self.states.get(state.partition) is not state:
            return False  # the application has called seek or assign meanwhile
        code = ErrorCode(answer.error_code)
        moved = code is ErrorCode.OFFSET_OUT_OF_RANGE or answer.HasField("diverging_epoch")
        if answer.HasField("preferred_read_replica"):
            self._go_to(state, answer.preferred_read_replica)
        elif (moved or code is not ErrorCode.NONE) and not self._of_leader(state):
            self._back_to_leader(state)
        elif moved and state.position != state.fetch_offset:
            self._retry_later(state)  # otherwise records that were read before would be lost
        elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(state, answer)
        elif code is not ErrorCode.NONE:
            unsaid = f"fetching {state.partition} at offset {state.fetch_offset} was refused"
            error = ReplogError(code, answer.error_message or unsaid)
            if error.retriable:
                self._retry_later(state)
            else:
                self._fail(state, error)
        elif answer.HasField("diverging_epoch"):
            self._truncated(state, answer.diverging_epoch.end_offset)
        else:
            state.failures = 0
            state.end = answer.last_stable_offset if self.settings.read_committed else answer.high_watermark
            return True
        return False

    def _of_leader(self, state: AssignedPartition) -> bool:
        """Return True if the last request went to the leader, by the newest metadata."""
        return state.asked_of == self.metadata.view.leader(state.partition)

    def _go_to(self, state: AssignedPartition, broker_id: int) -> None:
        """Read from the follower that the leader names (FE-19)."""
        if broker_id not in self.metadata.view.brokers or not self._of_leader(state):
            self._back_to_leader(state)
            return
        state.read_replica = broker_id, asyncio.get_running_loop().time() + METADATA_MAX_AGE_S
        self._stale.set()
        asyncio.get_running_loop().call_later(METADATA_MAX_AGE_S, self._stale.set)

    def _back_to_leader(self, state: AssignedPartition) -> None:
        """Ask the leader at once: a follower's errors may be its own (FE-20, FE-21)."""
        state.read_replica = None
        state.leader_only_until = asyncio.get_running_loop().time() + LEADER_ONLY_S
        asyncio.get_running_loop().call_later(LEADER_ONLY_S, self._stale.set)
        self._retry_later(state)

    def deliver(self, chunk: Chunk) -> None:
        """Keep the chunk, and have the next fetch go on behind its batches."""
        try:
            headers = [header for _, header in iterate_batches(chunk.records)]
        except ReplogError as error:
            self._unreadable(chunk, f"{chunk.state.partition}: {error.message}")
            return
        if not headers:  # the answer ended within its first batch, which comes whole once it is first (FE-9)
            chunk.stream.taken()
            return
        if headers[-1].next_offset <= (chunk.state.fetch_offset or 0):
            message = f"{chunk.state.partition}: the answer at {chunk.state.fetch_offset} holds no batch of that offset"
            self._unreadable(chunk, message)
            return
        chunk.state.fetch_offset = headers[-1].next_offset
        epochs = {header.leader_epoch: header.base_offset for header in reversed(headers)} | chunk.state.epochs
        chunk.state.epochs = dict(sorted(epochs.items())[-MAX_EPOCHS:])
        self._chunks.append(chunk)
        self.news.set()

    def _unreadable(self, chunk: Chunk, message: str) -> None:
        """Fail a partition whose leader's copy is damaged. A follower's is read again from the leader."""
        chunk.stream.taken()
        if self._of_leader(chunk.state):
            self._fail(chunk.state, ErrorCode.CORRUPT_MESSAGE.error(message))
        else:
            logger.warning("%s; reading it from the leader", message)
            self._back_to_leader(chunk.state)

    def suspect(self, stream: FetchStream) -> None:
        for state in self.states.values():
            if state.asked_by is stream and not self._of_leader(state):
                self._back_to_leader(state)
        self.metadata.avoid(stream.address)
        self._suspicious = True
        self._stale.set()

    def lost(self, stream: FetchStream, states: list[AssignedPartition], error: ReplogError) -> None:
        if self._streams.get(stream.address) is stream:
            del self._streams[stream.address]
        logger.info("fetch stream lost: %s", error)
        if error.code is ErrorCode.REQUEST_TIMED_OUT and states:
            self.size.timed_out(len(states) * self.settings.partition_max_bytes)
        for state in states:
            if self._of_leader(state):
                self._retry_later(state)
            else:
                self._back_to_leader(state)
        self._stale.set()

    # Positions.

    def _fresh(self, partition: TopicPartition) -> AssignedPartition:
        state = AssignedPartition(partition, None, self.settings.reset)
        if self.settings.reset is None:
            message = f"{partition} has no position and auto_offset_reset is 'error'; seek"
            self._fail(state, ErrorCode.OFFSET_OUT_OF_RANGE.error(message))
        return state

    def _out_of_range(self, state: AssignedPartition, answer: log_pb2.FetchPartitionResult) -> None:
        message = (
            f"offset {state.fetch_offset} of {state.partition} is outside of its log, which starts at "
            f"{answer.log_start_offset} and ends, as far as it is committed, at {answer.high_watermark}"
        )
        self._reset_or_fail(state, ErrorCode.OFFSET_OUT_OF_RANGE.error(message + "; seek to go on"))

    def _truncated(self, state: AssignedPartition, diverging_offset: int) -> None:
        """Go on at the first offset that diverges, as Kafka's consumer does. Without a reset policy fail."""
        assert state.fetch_offset is not None
        error = LogTruncated(state.partition, state.fetch_offset, diverging_offset)
        if self.settings.reset is None or diverging_offset < 0:
            self._reset_or_fail(state, error)
            return
        logger.warning("%s was truncated from %d to %d", state.partition, state.fetch_offset, diverging_offset)
        self.go_to(state.partition, min(diverging_offset, state.fetch_offset))

    def _recreated(self, state: AssignedPartition, topic_id: bytes) -> None:
        """Go on at the start of the new topic, of which nothing was consumed. Without a reset policy fail."""
        if state.position != state.fetch_offset:
            self._retry_later(state)  # otherwise records that were read before would be lost
            return
        error = TopicRecreated(state.partition, state.position or 0)
        if self.settings.reset is None:
            state.topic_id = topic_id
            self._fail(state, error)
            return
        logger.warning("%s; reading the new one from its start", error.message.partition(";")[0])
        self.replace(AssignedPartition(state.partition, None, EARLIEST))

    def _reset_or_fail(self, state: AssignedPartition, error: ReplogError) -> None:
        if self.settings.reset is None:
            self._fail(state, error)
            return
        logger.warning("position in %s reset: %s", state.partition, error.message)
        self.replace(AssignedPartition(state.partition, None, self.settings.reset))

    def _fail(self, state: AssignedPartition, error: ReplogError) -> None:
        state.error = error
        self._failed.append(state)
        self.news.set()

    def _retry_later(self, state: AssignedPartition) -> None:
        loop = asyncio.get_running_loop()
        state.failures += 1
        state.failed_source = state.asked_of or self.metadata.view.leader(state.partition)
        delay_s = self._backoff.delay_s(state.failures)
        state.retry_at = loop.time() + delay_s
        loop.call_later(delay_s, self._stale.set)
        self._stale.set()

    def go_to(self, partition: TopicPartition, offset: int, topic_id: bytes | None = None) -> None:
        """Go on at `offset` of the topic with this id; by default of the one that was read, or that exists."""
        topic_id = topic_id or self.states[partition].topic_id or self._id_of(partition)
        self.replace(AssignedPartition(partition, offset, None, topic_id=topic_id))

    def go_back(self, partition: TopicPartition, offset: int) -> AssignedPartition:
        """Go back to records that were fetched before. It keeps the epochs: a truncation since is still noticed."""
        state = self.states[partition]
        epochs = {epoch: begins for epoch, begins in state.epochs.items() if begins < offset}
        again = AssignedPartition(partition, offset, None, epochs=epochs, topic_id=state.topic_id)
        self.replace(again)
        return again

    def pause(self, partition: TopicPartition) -> None:
        """Fetch no more of the partition. Its buffered records are dropped, and read again later."""
        self.paused.add(partition)
        if (state := self.states[partition]).position is not None and state.error is None:
            self.go_back(partition, state.position)

    def resume(self, partition: TopicPartition) -> None:
        self.paused.discard(partition)
        self._stale.set()

    def _id_of(self, partition: TopicPartition) -> bytes:
        view = self.metadata.view.topics.get(partition.topic)
        return b"" if view is None else view.topic_id

    def replace(self, state: AssignedPartition) -> None:
        self.states[state.partition] = state
        self._changed()

    def _changed(self) -> None:
        """Drop the buffered records of states that are gone, and fetch for the new ones."""
        if self._current is not None and self.states.get(self._current[0].partition) is not self._current[0]:
            self._current = None
        self._stale.set()
        self.news.set()
        if self._task is None and self.states:
            self._task = asyncio.get_running_loop().create_task(self._keep_fetching())
            self._task.add_done_callback(self._ended)

    def take(self, max_records: int | None) -> list[Record]:
        """Return up to `max_records` of the oldest chunk, and move the position behind them. Raises a partition's
        error."""
        self._raise_failed()
        while self._current is None:
            oldest = self._decode_oldest(decode_fetched)
            if oldest is None:
                return []
            state, decoded = oldest
            if not decoded.records:  # only control batches and aborted ones
                state.position = decoded.next_offset
                continue
            self._current = state, deque(decoded.records), decoded.next_offset
        state, records, next_offset = self._current
        if max_records is None or len(records) <= max_records:
            taken = list(records)
            self._current = None
            state.position = next_offset
        else:
            taken = [records.popleft() for _ in range(max_records)]
            state.position = records[0].offset
        self.counts.records += len(taken)
        return taken

    def lag(self) -> int:
        """Return by how many offsets the partition furthest behind lags, by each partition's last answer."""
        known = (s.end - s.position for s in self.states.values() if s.end is not None and s.position is not None)
        return max(0, max(known, default=0))

    def take_decoded(self, decode: Decode[D]) -> D | None:
        """Return what `decode` makes of the oldest chunk, and move the position behind it. Raises a partition's
        error."""
        self._raise_failed()
        oldest = self._decode_oldest(decode)
        if oldest is None:
            return None
        state, decoded = oldest
        state.position = decoded.next_offset
        return decoded

    def _decode_oldest(self, decode: Decode[D]) -> tuple[AssignedPartition, D] | None:
        """Decode the oldest chunk of a state that is still wanted. A follower's damaged one is read from the leader."""
        while self._chunks:
            chunk = self._chunks.popleft()
            chunk.stream.taken()
            state = chunk.state
            if self.states.get(state.partition) is not state:
                continue
            assert state.position is not None
            self.counts.bytes += len(chunk.records)
            try:
                return state, decode(chunk.records, *state.partition, state.position, chunk.aborted)
            except ReplogError as error:
                self._chunks = deque(self._without(state))
                if chunk.source == self.metadata.view.leader(state.partition):
                    self._fail(state, error)
                    if isinstance(error, Undecodable) and error.before is not None:
                        return state, cast(D, error.before)  # otherwise a seek behind the batch would skip these
                    raise
                logger.warning("%s; reading it from the leader", error)
                again = self.go_back(state.partition, state.position)
                again.leader_only_until = asyncio.get_running_loop().time() + LEADER_ONLY_S
            except BaseException:  # a defect in `decode`, or an interrupt: nobody has seen these records
                self.go_back(state.partition, state.position)
                raise
        return None

    def _without(self, state: AssignedPartition) -> Iterable[Chunk]:
        """Yields the chunks that are not the state's; those are taken."""
        for chunk in self._chunks:
            if chunk.state is state:
                chunk.stream.taken()
            else:
                yield chunk

    def _raise_failed(self) -> None:
        """Raise the error of a failed partition, once all records before it have been taken."""
        if not self._failed:
            return
        self._failed = [state for state in self._failed if self.states.get(state.partition) is state]
        for state in self._failed:
            buffered = any(chunk.state is state for chunk in self._chunks)
            handed_out = self._current is None or self._current[0] is not state
            if state.error is not None and not buffered and handed_out:
                raise state.error

    async def _keep_fetching(self) -> None:
        """Resolve positions, refresh stale leaders, and keep one stream to each broker that is read."""
        loop = asyncio.get_running_loop()
        refreshed = loop.time()
        while True:
            try:
                async with asyncio.timeout_at(refreshed + METADATA_MAX_AGE_S):
                    await self._stale.wait()
            except TimeoutError:
                self._stale.set()
            self._stale.clear()
            try:
                leader, states = self.metadata.view.leader, self.states.values()
                in_trouble = any(state.failures or leader(state.partition) is None for state in states)
                if loop.time() - refreshed > METADATA_MAX_AGE_S or self._suspicious or in_trouble:
                    self._suspicious = False
                    await self.metadata.refresh()
                    refreshed = loop.time()
                    self._tell_missing()
                await self._resolve_positions()
            except ReplogError as error:
                self.metadata.told_of(error)
                loop.call_later(self._backoff.delay_s(1), self._stale.set)
            self._wake_streams()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Report a defect to the application, which may seek to begin again. Otherwise the task is only cancelled."""
        if task.cancelled() or (defect := task.exception()) is None:
            return
        logger.error("the consumer stopped fetching: a defect", exc_info=defect)
        self._task = None
        for state in self.states.values():
            self._fail(state, ErrorCode.UNKNOWN_SERVER_ERROR.error(f"fetching failed: {defect!r}"))

    def _tell_missing(self) -> None:
        """Log each assigned topic or partition that does not exist, once."""
        missing: dict[str, str] = {}
        for partition in self.states:
            view = self.metadata.view.topics.get(partition.topic)
            if partition.topic in self.metadata.view.denied:
                missing[partition.topic] = f"no ACL lets this client describe topic {partition.topic!r}"
            elif view is None:
                missing[partition.topic] = f"topic {partition.topic!r} is not known; create it, or check its name"
            elif partition.partition not in view.partitions:
                missing[str(partition)] = f"topic {partition.topic!r} has {len(view.partitions)} partitions"
        for name in missing.keys() - self._missing:
            logger.warning("%s is assigned, and waited for: %s", name, missing[name])
        self._missing = missing.keys()

    async def _resolve_positions(self) -> None:
        """Ask once for every position that is not known. Those without an answer are asked for again later."""
        now = asyncio.get_running_loop().time()
        unknown = {
            state.partition: state
            for state in self.states.values()
            if state.reset is not None and state.error is None and state.retry_at <= now
        }
        if not unknown:
            return
        ids = {partition: self._id_of(partition) for partition in unknown}
        timestamps = {partition: state.reset for partition, state in unknown.items() if state.reset is not None}
        offsets, error = await list_offsets_once(
            self.metadata, timestamps, read_committed=self.settings.read_committed, timeout_s=POSITION_TIMEOUT_S
        )
        for partition, state in unknown.items():
            offset = offsets.get(partition)
            if offset is not None:
                state.position = state.fetch_offset = offset.offset
                state.reset = None
                state.topic_id = ids[partition]
                state.failures = 0
            elif error is None or error.retriable:
                self._retry_later(state)
            else:
                self._fail(state, error)
        self.news.set()

    def _wake_streams(self) -> None:
        """Tell each stream what to fetch. Everything that may change that sets `_stale`."""
        loop = asyncio.get_running_loop()
        now, wanted = loop.time(), dict[str, dict[TopicPartition, Fetch]]()
        sources = {state: self._source(state) for state in self.states.values()}
        if None in sources.values():
            loop.call_later(self._backoff.delay_s(1), self._stale.set)
        for state, source in sources.items():
            if source is None:
                continue
            of_broker = wanted.setdefault(source.address, {})
            delayed = state.retry_at > now and source == state.failed_source
            paused = state.partition in self.paused
            if state.fetch_offset is not None and state.error is None and not delayed and not paused:
                topic_id = self._id_of(state.partition)
                state.topic_id = state.topic_id or topic_id
                if topic_id == state.topic_id:
                    of_broker[state.partition] = Fetch(state, source, topic_id)
                else:
                    self._recreated(state, topic_id)
        for address in [address for address in self._streams if address not in wanted]:
            self._streams.pop(address).stop()
        for address, fetches in wanted.items():
            if address not in self._streams:
                self._streams[address] = FetchStream(self, address)
            self._streams[address].want(fetches, self._rack(fetches.values(), now))

    def _rack(self, fetches: Collection[Fetch], now: float) -> str | None:
        """Return the client's rack; None if one of these partitions is to be read only from its leader for now."""
        if not self.settings.client_rack:
            return None
        from_followers = any(fetch.source != self.metadata.view.leader(fetch.state.partition) for fetch in fetches)
        anywhere = from_followers or all(fetch.state.leader_only_until <= now for fetch in fetches)
        return self.settings.client_rack if anywhere else None
