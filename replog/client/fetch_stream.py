"""What a consumer knows of each partition, and the Fetch stream to each broker that it reads from."""

import asyncio
from typing import Protocol

from replog.client.fetch_size import FetchSize
from replog.client.metadata import Leader, Metadata
from replog.errors import ErrorCode, ReplogError
from replog.log.offsets import AbortedTransaction, Buffer
from replog.rpc.codec import WithRecords
from replog.rpc.methods import Log
from replog.rpc.v1 import log_pb2
from replog.topic import TopicPartition

SILENCE_S = 1.0  # a leader that does not answer for so long may be one no more, a follower is left


class PartitionState:
    """One assigned partition. A seek or a new assignment makes a new state, so answers for the old one fall away."""

    __slots__ = (
        "asked_by",
        "asked_of",
        "error",
        "failed_source",
        "failures",
        "fetch_offset",
        "last_epoch",
        "leader_only_until",
        "partition",
        "position",
        "read_replica",
        "reset",
        "retry_at",
    )

    def __init__(self, partition: TopicPartition, offset: int | None, reset: int | None) -> None:
        self.partition = partition
        self.position = offset  # of the next record for the application; None until it is known
        self.fetch_offset = offset  # of the next fetch: ahead of `position` by what is buffered
        self.reset = reset  # the ListOffsets timestamp that will tell the position
        self.last_epoch: int | None = None  # leader epoch of the last batch fetched (truncation detection)
        self.error: ReplogError | None = None  # raised by fetch() until a seek
        self.failures = 0  # retriable ones in a row
        self.failed_source: Leader | None = None  # with whom the last failure was
        self.retry_at = 0.0  # loop time, s
        self.asked_by: FetchStream | None = None  # whose request it is in; never in two, even if its leader moves
        self.asked_of: Leader | None = None  # the leader, or a follower that stands in for it, as of that request
        self.read_replica: tuple[int, float] | None = None  # whom the leader named, until when (loop time, s)
        self.leader_only_until = 0.0  # a follower failed: the leader need not name one before (loop time, s)


class Chunk:
    """One partition's answer, not yet decoded."""

    __slots__ = ("aborted", "records", "source", "state", "stream")

    def __init__(
        self, stream: "FetchStream", state: PartitionState, records: Buffer, aborted: tuple[AbortedTransaction, ...]
    ) -> None:
        self.stream = stream
        self.state = state
        self.source = state.asked_of
        self.records = records
        self.aborted = aborted  # READ_COMMITTED: to be passed over


class FetchOwner(Protocol):
    """The fetcher, as its streams see it."""

    metadata: Metadata
    request_timeout_s: float
    partition_max_bytes: int
    size: FetchSize

    def fetchable(self, address: str) -> list[tuple[PartitionState, Leader]]:
        """The states to read from this broker now, the longest waiting first (FE-10), each with whom to ask."""

    def fetch_request(self, asked: list[tuple[PartitionState, Leader]]) -> log_pb2.FetchRequest:
        """A request for these, but without partitions or correlation id."""

    def answered(self, stream: "FetchStream", state: PartitionState, answer: log_pb2.FetchPartitionResult) -> bool:
        """Take the answer in; whether its records are wanted."""

    def deliver(self, chunk: Chunk) -> None: ...

    def suspect(self, stream: "FetchStream") -> None:
        """The broker is silent: see who leads now."""

    def lost(self, stream: "FetchStream", states: list[PartitionState], error: ReplogError) -> None: ...


class FetchStream:
    """One request at a time to one broker, at most one undelivered response; lives until its first error."""

    def __init__(self, owner: FetchOwner, address: str) -> None:
        self.address = address
        self._owner = owner
        self._stream = owner.metadata.channel(address).open(Log["fetch"])
        self._wake = asyncio.Event()
        self._undelivered = 0  # chunks of the last response that the application has not taken
        self._drained = asyncio.Event()
        self._drained.set()
        self._asked: list[PartitionState] = []
        self._correlation_id = 0
        self.task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """There may be something to fetch."""
        self._wake.set()

    def taken(self) -> None:
        """The application has taken one chunk."""
        self._undelivered -= 1
        if self._undelivered == 0:
            self._drained.set()

    def stop(self) -> None:
        """From here on others may ask for what was asked of this broker."""
        self._stream.cancel()
        self.task.cancel()
        self._release()

    def _release(self) -> None:
        for state in self._asked:
            state.asked_by = None
        self._asked = []

    async def _run(self) -> None:
        try:
            while True:
                await self._fetch_once()
        except ReplogError as error:
            self._owner.lost(self, self._asked, error)
        except Exception as error:  # noqa: BLE001 (the task's boundary: nobody else would see it)
            wrapped = ReplogError(ErrorCode.UNKNOWN_SERVER_ERROR, f"fetching from {self.address} failed: {error!r}")
            self._owner.lost(self, self._asked, wrapped)
        finally:
            self._stream.cancel()
            self._release()

    async def _fetch_once(self) -> None:
        self._wake.clear()
        asked = self._owner.fetchable(self.address)
        self._asked = [state for state, _ in asked]
        if not asked:
            await self._wake.wait()
            return
        request = self._owner.fetch_request(asked)
        self._correlation_id += 1
        request.correlation_id = self._correlation_id
        for state, source in asked:
            state.asked_by, state.asked_of = self, source
            request.partitions.add(
                topic=state.partition.topic,
                partition=state.partition.partition,
                fetch_offset=state.fetch_offset,
                partition_max_bytes=self._owner.partition_max_bytes,
                current_leader_epoch=source.epoch,
                last_fetched_epoch=state.last_epoch,
                topic_id=self._owner.metadata.view.topics[state.partition.topic].topic_id,
            )
        response = await self._ask(request)
        await self._drained.wait()
        if response is None:
            raise ReplogError(ErrorCode.NETWORK_EXCEPTION, f"{self.address} ended the fetch stream")
        self._take(response)
        self._asked = []

    async def _ask(self, request: log_pb2.FetchRequest) -> WithRecords[log_pb2.FetchResponse] | None:
        """Send and receive; a broker that is silent for longer than it was allowed is suspected meanwhile."""
        max_wait_s, timeout_s = request.max_wait_ms / 1000, self._owner.request_timeout_s
        asked_at = asyncio.get_running_loop().time()
        self._suspect_in(max_wait_s + SILENCE_S)
        try:
            await self._stream.send(request)
            response: WithRecords[log_pb2.FetchResponse] | None
            response = await self._stream.receive(max_wait_s + timeout_s)
            self._owner.size.answered(asyncio.get_running_loop().time() - asked_at - max_wait_s, timeout_s)
            return response
        finally:
            self._suspicion.cancel()

    def _suspect_in(self, delay_s: float) -> None:
        def overdue() -> None:
            self._owner.suspect(self)
            self._suspect_in(SILENCE_S)

        self._suspicion = asyncio.get_running_loop().call_later(delay_s, overdue)

    def _take(self, response: WithRecords[log_pb2.FetchResponse]) -> None:
        """Cut the payload into the partitions' chunks, having checked that the answer is to the question."""
        head = response.head
        told = [(answer.topic, answer.partition) for answer in head.partitions]
        payload = memoryview(response.records[0] if response.records else b"")
        sizes = [answer.records_size for answer in head.partitions]
        if (
            head.correlation_id != self._correlation_id
            or told != [tuple(state.partition) for state in self._asked]
            or any(size < 0 for size in sizes)
            or sum(sizes) != len(payload)
        ):
            raise ReplogError(
                ErrorCode.INVALID_REQUEST,
                f"{self.address} answered fetch {head.correlation_id} of {told} with {len(payload)} bytes, which is "
                f"not fetch {self._correlation_id}",
            )
        position = 0
        for state, answer in zip(self._asked, head.partitions, strict=True):
            records = payload[position : position + answer.records_size]
            position += answer.records_size
            state.asked_by = None
            if self._owner.answered(self, state, answer) and len(records):
                self._undelivered += 1
                self._drained.clear()
                aborted = tuple(AbortedTransaction(a.producer_id, a.first_offset) for a in answer.aborted_transactions)
                self._owner.deliver(Chunk(self, state, records, aborted))
