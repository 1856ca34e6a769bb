"""A consumer's Fetch stream to each broker that it reads from."""

import asyncio
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Protocol

from replog.client.consuming.subscription import AssignedPartition
from replog.client.counts import ConsumerCounts
from replog.client.metadata import Leader, Metadata
from replog.common.backoff import FetchSize
from replog.errors import ErrorCode, ReplogError
from replog.log.offsets import AbortedTransaction, Buffer
from replog.rpc.codec import WithRecords
from replog.rpc.methods import Log
from replog.rpc.v1 import log_pb2
from replog.topic import TopicPartition

MAX_NAMED = 1000  # partitions in a request; with more, the broker answers at once and the next request names them
SILENCE_S = 1.0  # then a leader may have lost its leadership, and a follower is read no more


class Chunk(NamedTuple):
    """A partition's answer, not yet decoded."""

    stream: "FetchStream"
    state: AssignedPartition
    source: Leader | None
    records: Buffer
    aborted: tuple[AbortedTransaction, ...]  # READ_COMMITTED skips them


class Fetch(NamedTuple):
    """A partition that a stream fetches: for which state, and from which broker."""

    state: AssignedPartition
    source: Leader
    topic_id: bytes


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The consumer's settings; sizes in bytes."""

    read_committed: bool
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    max_wait_ms: int
    request_timeout_s: float
    client_rack: str  # "": only leaders are read
    reset: int | None  # the ListOffsets timestamp of the reset policy; None: raise an error


class FetchOwner(Protocol):
    """The fetcher, as its streams see it."""

    metadata: Metadata
    settings: FetchSettings
    size: FetchSize
    counts: ConsumerCounts

    def answered(self, stream: "FetchStream", state: AssignedPartition, answer: log_pb2.FetchPartitionResult) -> bool:
        """Take in the answer. Return True if the partition is to be fetched on."""

    def deliver(self, chunk: Chunk) -> None: ...

    def released(self) -> None:
        """Note that another stream may fetch a partition that this one fetched."""

    def suspect(self, stream: "FetchStream") -> None:
        """Look for new leaders: the broker is silent."""

    def lost(self, stream: "FetchStream", states: list[AssignedPartition], error: ReplogError) -> None: ...


class FetchStream:
    """Sends one request at a time to a broker, and keeps at most one undelivered response. It ends at its first error.

    It is a fetch session (divergence 11): the broker remembers named partitions, and a request names only changes.
    So a request and its answer cost as much as what changed, however many partitions there are."""

    def __init__(self, owner: FetchOwner, address: str) -> None:
        self.address = address
        self._owner = owner
        self._stream = owner.metadata.channel(address).open(Log["fetch"])
        self._wake = asyncio.Event()
        self._undelivered = 0  # chunks of the last response that the application has not taken
        self._drained = asyncio.Event()
        self._drained.set()
        self._wanted: dict[TopicPartition, Fetch] = {}
        self._rack: str | None = None
        self._named: dict[TopicPartition, Fetch] = {}  # the session, as the broker knows it
        self._changed: dict[TopicPartition, None] = {}  # partitions to name: wanted otherwise, or their offset moved
        self._goes_on = False  # the broker knows the session
        self._correlation_id = 0
        self.task = asyncio.create_task(self._run())

    def want(self, wanted: dict[TopicPartition, Fetch], rack: str | None) -> None:
        """Fetch exactly these from now on, as a client in this rack."""
        self._wanted, self._rack = wanted, rack
        self._changed.update((tp, None) for tp, fetch in wanted.items() if self._named.get(tp) != fetch)
        self._changed.update((tp, None) for tp in self._named if tp not in wanted)
        self._wake.set()

    def taken(self) -> None:
        self._undelivered -= 1
        if self._undelivered == 0:
            self._drained.set()

    def stop(self) -> None:
        """End the stream. Others may fetch its partitions from now on."""
        self._stream.cancel()
        self.task.cancel()
        self._release()

    def _release(self) -> None:
        for fetch in self._named.values():
            fetch.state.asked_by = None
        self._named.clear()

    async def _run(self) -> None:
        try:
            while True:
                await self._fetch_once()
        except ReplogError as error:
            self._lost(error)
        except Exception as error:  # noqa: BLE001 (the task's boundary: nobody else would see it)
            self._lost(ErrorCode.UNKNOWN_SERVER_ERROR.error(f"fetching from {self.address} failed: {error!r}"))
        finally:
            self._stream.cancel()
            self._release()

    def _lost(self, error: ReplogError) -> None:
        self._owner.lost(self, [fetch.state for fetch in self._named.values()], error)

    async def _fetch_once(self) -> None:
        self._wake.clear()
        settings = self._owner.settings
        request = log_pb2.FetchRequest(
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=self._owner.size.bytes,
            isolation_level=log_pb2.READ_COMMITTED if settings.read_committed else log_pb2.READ_UNCOMMITTED,
        )
        self._name_changes(request)
        if not self._named:
            self._goes_on = False  # the broker was not told of partitions that were taken out
            if not self._changed:  # otherwise those that another stream still fetches would keep the rest waiting
                await self._wake.wait()
            return
        self._correlation_id += 1
        request.correlation_id = self._correlation_id
        request.goes_on, self._goes_on = self._goes_on, True
        response = await self._ask(request)
        await self._drained.wait()
        if response is None:
            raise ErrorCode.NETWORK_EXCEPTION.error(f"{self.address} ended the fetch stream")
        self._take(request, response)

    def _name_changes(self, request: log_pb2.FetchRequest) -> None:
        if self._rack is not None:
            request.rack_id = self._rack
        for tp in tuple(islice(self._changed, MAX_NAMED)):
            del self._changed[tp]
            named, fetch = self._named.pop(tp, None), self._wanted.get(tp)
            if named is not None:
                named.state.asked_by = None
            if fetch is None or fetch.state.asked_by is not None:  # otherwise two streams would fetch it
                if named is not None:
                    request.forgotten.add(topic=tp.topic, partition=tp.partition)
                    self._owner.released()
                continue
            self._named[tp] = fetch
            state = fetch.state
            state.asked_by, state.asked_of = self, fetch.source
            request.partitions.add(
                topic=tp.topic,
                partition=tp.partition,
                fetch_offset=state.fetch_offset or 0,
                partition_max_bytes=self._owner.settings.partition_max_bytes,
                current_leader_epoch=fetch.source.epoch,
                last_fetched_epoch=max(state.epochs, default=None),
                topic_id=fetch.topic_id,
            )
        if self._changed:
            request.max_wait_ms = 0  # otherwise the rest would wait as long as this request

    async def _ask(self, request: log_pb2.FetchRequest) -> WithRecords[log_pb2.FetchResponse] | None:
        """Send a request and return the answer. A broker that is silent for longer than it may is suspected."""
        max_wait_s, timeout_s = request.max_wait_ms / 1000, self._owner.settings.request_timeout_s
        asked_at = asyncio.get_running_loop().time()
        self._suspect_in(max_wait_s + SILENCE_S)
        try:
            await self._stream.send(request)
            response: WithRecords[log_pb2.FetchResponse] | None
            response = await self._stream.receive(max_wait_s + timeout_s)
            elapsed_s = asyncio.get_running_loop().time() - asked_at
            if response is not None:
                self._owner.counts.fetches.add(elapsed_s)
                self._owner.size.answered(sum(map(len, response.records)), elapsed_s - max_wait_s, timeout_s)
            return response
        finally:
            self._suspicion.cancel()

    def _suspect_in(self, delay_s: float) -> None:
        def overdue() -> None:
            self._owner.suspect(self)
            self._suspect_in(SILENCE_S)

        self._suspicion = asyncio.get_running_loop().call_later(delay_s, overdue)

    def _take(self, request: log_pb2.FetchRequest, response: WithRecords[log_pb2.FetchResponse]) -> None:
        """Check that the answer is to this request, and cut its payload into the partitions' chunks."""
        head = response.head
        named = [TopicPartition(answer.topic, answer.partition) for answer in head.partitions]
        payload = memoryview(response.records[0] if response.records else b"")
        sizes = [answer.records_size for answer in head.partitions]
        if (
            head.correlation_id != self._correlation_id
            or not self._named.keys() >= set(named)
            or any(size < 0 for size in sizes)
            or sum(sizes) != len(payload)
        ):
            raise ErrorCode.INVALID_REQUEST.error(
                f"{self.address} answered fetch {head.correlation_id} of {named} with {len(payload)} bytes, which is "
                f"not fetch {self._correlation_id}"
            )
        for tp in {TopicPartition(asked.topic, asked.partition) for asked in request.partitions}.difference(named):
            self._named[tp].state.failures = 0  # a partition that is not in the answer has no error
        position = 0
        for tp, answer in zip(named, head.partitions, strict=True):
            state = self._named[tp].state
            records = payload[position : position + answer.records_size]
            position += answer.records_size
            if not self._owner.answered(self, state, answer):
                self._wanted.pop(tp, None)
                self._changed[tp] = None
            elif len(records) and tp not in self._changed:  # otherwise records from an old offset would be delivered
                self._undelivered += 1
                self._drained.clear()
                aborted = tuple(AbortedTransaction(a.producer_id, a.first_offset) for a in answer.aborted_transactions)
                self._owner.deliver(Chunk(self, state, state.asked_of, records, aborted))
                self._changed[tp] = None
