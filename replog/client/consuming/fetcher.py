"""Fetches ahead of the application: it resolves positions, follows leaders, and keeps a bounded buffer.

A leader may name a follower in the client's rack. That is then read for `METADATA_MAX_AGE_S`, or until its first error
or silence. Its errors are not the partition's, and only a leader's answer resets a position (FE-20, FE-21)."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Set
from typing import Protocol, TypeVar, cast

from replog.client.consuming.fetch_stream import Chunk, Fetch, FetchSettings, FetchStream
from replog.client.consuming.subscription import AssignedPartition, Subscription
from replog.client.counts import ConsumerCounts
from replog.client.metadata import Leader, Metadata
from replog.client.offsets import ask_once, list_offsets_request
from replog.client.records import Record, Undecodable, decode_fetched
from replog.common.backoff import Backoff, FetchSize
from replog.errors import ErrorCode, ReplogError
from replog.log.formats.batch import iterate_batches
from replog.log.offsets import AbortedTransaction, Buffer
from replog.rpc.methods import Log
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


class Fetcher(Subscription):
    """Fetches from the first assignment until `close`; `take` returns what has arrived."""

    def __init__(self, metadata: Metadata, backoff: Backoff, settings: FetchSettings) -> None:
        super().__init__(metadata, backoff, settings.reset)
        self.settings = settings
        self.size = FetchSize(settings.max_bytes)
        self.counts = ConsumerCounts()
        self._streams: dict[str, FetchStream] = {}  # keys are broker addresses
        self._chunks: deque[Chunk] = deque()
        self._current: tuple[AssignedPartition, deque[Record], int] | None = None  # records to take; the offset after
        self._suspicious = False  # a leader is silent
        self._missing: Set[str] = frozenset()  # topics and partitions that do not exist, by the last log line
        metadata.on_change = self._stale.set  # otherwise streams would not follow the leaders
        self._task: asyncio.Task[None] | None = None

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

    def released(self) -> None:
        self._stale.set()

    def answered(self, stream: FetchStream, state: AssignedPartition, answer: log_pb2.FetchPartitionResult) -> bool:
        if not self.holds(state):
            return False
        code = ErrorCode(answer.error_code)
        moved = code is ErrorCode.OFFSET_OUT_OF_RANGE or answer.HasField("diverging_epoch")
        if answer.HasField("preferred_read_replica"):
            self._read_from(state, answer.preferred_read_replica)
        elif code is ErrorCode.NONE and not moved:
            state.failures = 0
            state.end = answer.last_stable_offset if self.settings.read_committed else answer.high_watermark
            return True
        elif not self._of_leader(state) or (moved and state.position != state.fetch_offset):
            self._ask_again(state)  # otherwise records that were read before would be lost
        elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
            message = (
                f"offset {state.fetch_offset} of {state.partition} is outside of its log, which starts at "
                f"{answer.log_start_offset} and ends, as far as it is committed, at {answer.high_watermark}"
            )
            self._reset_or_fail(state, code.error(message + "; seek to go on"))
        elif moved:
            self._truncated(state, answer.diverging_epoch.end_offset)
        else:
            refused = f"fetching {state.partition} at offset {state.fetch_offset} was refused"
            error = ReplogError(code, answer.error_message or refused)
            if error.retriable:
                self._retry_later(state)
            else:
                self._fail(state, error)
        return False

    def _of_leader(self, state: AssignedPartition) -> bool:
        """Return True if the last request went to the leader, by the newest metadata."""
        return state.asked_of == self.metadata.view.leader(state.partition)

    def _read_from(self, state: AssignedPartition, broker_id: int) -> None:
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

    def _ask_again(self, state: AssignedPartition) -> None:
        """Ask later; at once, and the leader, if a follower has failed."""
        if self._of_leader(state):
            self._retry_later(state)
        else:
            self._back_to_leader(state)

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
            self._ask_again(state)
        self._stale.set()

    def _changed(self) -> None:
        """Drop the buffered records of states that are gone, and fetch for the new ones."""
        if self._current is not None and not self.holds(self._current[0]):
            self._current = None
        super()._changed()
        if self._task is None and self.states:
            self._task = asyncio.get_running_loop().create_task(self._keep_fetching())
            self._task.add_done_callback(self._ended)

    def take(self, max_records: int | None) -> list[Record]:
        """Return up to `max_records` of the oldest chunk, and move the position behind them. Raises a partition's
        error."""
        self._raise_failed()
        while self._current is None:
            if (oldest := self._decode_oldest(decode_fetched)) is None:
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

    def take_decoded(self, decode: Decode[D]) -> D | None:
        """Return what `decode` makes of the oldest chunk, and move the position behind it. Raises a partition's
        error."""
        self._raise_failed()
        if (oldest := self._decode_oldest(decode)) is None:
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
            if not self.holds(state):
                continue
            assert state.position is not None
            self.counts.bytes += len(chunk.records)
            try:
                return state, decode(chunk.records, *state.partition, state.position, chunk.aborted)
            except ReplogError as error:
                for later in [chunk for chunk in self._chunks if chunk.state is state]:
                    self._chunks.remove(later)
                    later.stream.taken()
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

    def _raise_failed(self) -> None:
        """Raise the error of a failed partition, once all records before it have been taken."""
        if not self._failed:
            return
        self._failed = [state for state in self._failed if self.holds(state)]
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
                    self._report_missing()
                await self._resolve_positions()
            except ReplogError as error:
                self.metadata.report(error)
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

    def _report_missing(self) -> None:
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
        request = list_offsets_request(self.metadata, timestamps, self.settings.read_committed)
        answers, error = await ask_once(self.metadata, list(unknown), Log["list_offsets"], request, POSITION_TIMEOUT_S)
        for partition, state in unknown.items():
            if (answer := answers.get(partition)) is not None:
                state.position = state.fetch_offset = answer.offset
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
