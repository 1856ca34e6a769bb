"""The follower's side of replication on the wire: one fetcher per leader broker, one stream per fetcher (FT-1..FT-5).

The session decides what to ask, and what an answer means (`follower/fetch_session_handler.py`)."""

import asyncio
from collections.abc import Callable

import structlog

from follower.fetch_session_handler import FetchedReplica, FetchSessionHandler
from follower.partition_follower import FollowerProgress
from replog.common.backoff import Backoff
from replog.common.quota import Throttles
from replog.errors import ErrorCode, ReplogError
from replog.log.fetch import FetchAnswer, FetchPartition, SessionRequest, SessionRow
from replog.log.offsets import NO_OFFSET, EpochEndOffset
from replog.metadata.values import BrokerRegistration
from replog.rpc import methods
from replog.rpc.codec import WithRecords
from replog.rpc.tasks import end
from replog.rpc.transport import Channel, Stream
from replog.rpc.v1 import replica_pb2 as pb
from replog.server.broker.context import REPLICATION, BrokerContext
from replog.server.broker.identity import Identity
from replog.server.broker.replicas.hosted_replicas import HostedPartition
from replog.server.clock import DeadlineTimer
from replog.server.logging import log_each
from replog.topic import TopicPartition

log = structlog.get_logger()

OnFollowed = Callable[[TopicPartition, bool], None]
"""Called when a replica has followed its leader; True if consumers can see that."""


class ReplicaFetcher:
    """Copies every partition added to it from one leader, until closed."""

    def __init__(
        self,
        context: BrokerContext,
        channel: Channel,
        identity: Identity,
        backoff: Backoff,
        on_followed: OnFollowed,
        throttles: Throttles,
    ) -> None:
        config = context.config
        self._traffic = context.traffic
        self._timeout_ms = config.replica_socket_timeout_ms
        self._channel = channel
        self._clock = context.clock
        self._backoff = backoff
        self._on_followed = on_followed
        self.session = FetchSessionHandler(
            config, lambda: identity.broker_epoch, throttles, self._on_progress, self._on_defect
        )
        self._last_sent_ms = 0
        self._happened: dict[str, list[dict[str, object]]] = {}  # events of the response in hand, to be logged
        self._noted: dict[TopicPartition, str] = {}  # the last note on a replica that gets no further
        self._stream: Stream | None = None
        self._failure: Exception | None = None  # why this fetcher has ended the stream
        self._will_look = False
        self._timer = DeadlineTimer(context.clock, self._look)
        self._task = asyncio.create_task(self._run(), name=f"fetcher from {channel.address}")

    def go(self) -> None:
        """Send a request at the end of this turn of the event loop, if there is something to ask."""
        if not self._will_look:
            self._will_look = True
            asyncio.get_running_loop().call_soon(self._look)

    def flushed(self, tp: TopicPartition) -> None:
        """Report to the leader at once that more records are durable."""
        self.session.flushed(tp)
        self.go()

    def remove(self, tp: TopicPartition) -> None:
        """Ignore what arrives for `tp` from now on."""
        self._noted.pop(tp, None)
        if self.session.remove(tp):
            self.go()

    async def close(self) -> None:
        self._timer.cancel()
        await end(self._task)
        await self._channel.close()

    async def _run(self) -> None:
        while True:
            timed_out = False
            try:
                await self._copy()
                reason = "the leader ended the stream"
            except ReplogError as error:
                reason, timed_out = str(error), error.code is ErrorCode.REQUEST_TIMED_OUT
            except Exception as error:
                log.exception("fetcher failed", leader=self._channel.address)
                reason = repr(error)
            log.info("fetch stream lost", leader=self._channel.address, reason=reason)
            self.session.lost(self._clock.monotonic_ms(), timed_out=timed_out)
            await asyncio.sleep(self._backoff.next_s())

    async def _copy(self) -> None:
        """Copy over one stream, from its first request to its end. Raises the reason of its end."""
        self._stream = stream = self._channel.open(methods.Replica["fetch"])
        try:
            self._ask(stream, self._clock.monotonic_ms())
            await stream.each(self._on_response)
        except ReplogError:
            if self._failure is None:
                raise
        finally:
            self._stream = None
            stream.cancel()
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _look(self) -> None:
        """Ask for what has changed, or end the stream if the leader was silent for too long."""
        self._will_look = False
        if (stream := self._stream) is not None:
            try:
                self._ask(stream, self._clock.monotonic_ms())
            except Exception as error:  # noqa: BLE001 (it ends the stream, and is raised there)
                self._failure = error
                stream.cancel()

    def _ask(self, stream: Stream, now_ms: int) -> None:
        if self.session.outstanding and now_ms - self._last_sent_ms > self._timeout_ms:
            raise ErrorCode.REQUEST_TIMED_OUT.error(
                f"{self._channel.address} did not answer within {self._timeout_ms} ms"
            )
        request = self.session.next_request(now_ms)
        if request is not None:
            self._last_sent_ms = now_ms
            stream.post(_wire_request(request))
        self._timer.by(now_ms + self._timeout_ms if self.session.outstanding else self.session.next_wake_ms)

    def _on_response(self, response: WithRecords[pb.ReplicaFetchResponse]) -> None:
        self._backoff.reset()
        rows, now_ms, pushed = _session_rows(response), self._clock.monotonic_ms(), response.head.pushed
        for row in rows:
            if row.answer.records:
                self._traffic.topics[row.topic_partition.topic].copied_in += len(row.answer.records)
        if pushed:
            self.session.on_push(rows)
        else:
            self.session.on_response(rows, now_ms)
        for event, details in self._happened.items():
            log_each(log.info, event, details)
        self._happened.clear()
        if not pushed and self._stream is not None:
            self._ask(self._stream, now_ms)

    def _on_progress(self, replica: FetchedReplica, progress: FollowerProgress) -> None:
        tp, leader = replica.topic_partition, self._channel.address
        if progress.truncated_to is not None:
            self._note("truncated", partition=str(tp), to_offset=progress.truncated_to, leader=leader)
        if progress.note:
            cause = progress.note.partition(";")[0]
            if self._noted.get(tp) != cause:  # otherwise each try would say it again
                report = log.error if progress.alarm else log.warning
                report("replication", partition=str(tp), note=progress.note)
            self._noted[tp] = cause
            self._traffic.damage[REPLICATION] += progress.refused
        elif progress.high_watermark_fell:
            self._note("high watermark fell", partition=str(tp), leader=leader)  # HW-14
        if progress.appended_bytes:
            self._noted.pop(tp, None)
        self._on_followed(tp, progress.bounds_moved or progress.truncated_to is not None)

    def _note(self, event: str, **row: object) -> None:
        self._happened.setdefault(event, []).append(row)

    def _on_defect(self, replica: FetchedReplica, error: Exception) -> None:
        log.exception(
            "replication failed", partition=str(replica.topic_partition), leader=self._channel.address, exc_info=error
        )


def _wire_request(request: SessionRequest) -> pb.ReplicaFetchRequest:
    message = pb.ReplicaFetchRequest(
        replica_id=request.replica_id,
        broker_epoch=request.broker_epoch,
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
    )
    for tp, fetch in request.named.items():
        named = message.partitions.add()  # setting fields one by one takes less time than arguments
        named.topic, named.partition = tp
        named.topic_id = fetch.topic_id
        named.current_leader_epoch = -1 if fetch.current_leader_epoch is None else fetch.current_leader_epoch
        named.fetch_offset = fetch.fetch_offset
        named.last_fetched_epoch = -1 if fetch.last_fetched_epoch is None else fetch.last_fetched_epoch
        named.log_start_offset = fetch.log_start_offset
        named.partition_max_bytes = fetch.max_bytes
        named.unflushed = fetch.unflushed
    for tp in request.forgotten:
        message.forgotten.add(topic=tp.topic, partition=tp.partition)
    return message


def _session_rows(response: WithRecords[pb.ReplicaFetchResponse]) -> list[SessionRow]:
    payload = memoryview(response.records[0] if response.records else b"")
    rows, position = [], 0
    for result in response.head.partitions:
        begin, position = position, position + result.records_size
        tp = TopicPartition(result.topic, result.partition)
        asked = FetchPartition(result.fetch_offset, 0, result.leader_epoch, topic_id=result.topic_id)
        rows.append(SessionRow(tp, asked, _answer(result, payload[begin:position])))
    return rows


def _answer(result: pb.ReplicaFetchPartitionResult, records: memoryview) -> FetchAnswer:
    diverging = None
    if result.HasField("diverging_epoch"):
        diverging = EpochEndOffset(result.diverging_epoch.epoch, result.diverging_epoch.end_offset)
    return FetchAnswer(
        ErrorCode(result.error_code) if result.error_code else ErrorCode.NONE,
        result.high_watermark,
        NO_OFFSET,  # the last stable offset is for consumers
        result.log_start_offset,
        result.log_end_offset,
        diverging,
        records,
    )


class FetcherManager:
    """Every fetcher, by the leader that it copies from. Fetchers without partitions are closed."""

    def __init__(self, new_fetcher: Callable[[str], ReplicaFetcher]) -> None:
        self._new_fetcher = new_fetcher  # gets a leader's address
        self._fetchers: dict[str, ReplicaFetcher] = {}
        self._places: dict[TopicPartition, str] = {}
        self._closing: dict[asyncio.Task[None], None] = {}

    def fetch(self, hosted: HostedPartition, leader: BrokerRegistration) -> None:
        """Copy this partition from `leader` only, after `go` is called: so one request names many partitions."""
        self.stop(hosted.topic_partition)
        fetcher = self._fetchers.get(leader.address)
        if fetcher is None:
            fetcher = self._fetchers[leader.address] = self._new_fetcher(leader.address)
        fetcher.session.add(hosted)
        self._places[hosted.topic_partition] = leader.address

    def go(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.go()

    def is_fetching(self, tp: TopicPartition, leader: BrokerRegistration) -> bool:
        return self._places.get(tp) == leader.address

    def flushed(self, tp: TopicPartition) -> None:
        """Note that a flush of this partition's log is done."""
        if tp in self._places:
            self._fetchers[self._places[tp]].flushed(tp)

    def stop(self, tp: TopicPartition) -> None:
        """Stop fetching this partition. Nothing is appended to it after this returns."""
        address = self._places.pop(tp, None)
        if address is not None:
            self._fetchers[address].remove(tp)

    def close_idle(self) -> None:
        for address, fetcher in list(self._fetchers.items()):
            if not fetcher.session.partitions:
                del self._fetchers[address]
                task = asyncio.create_task(fetcher.close())
                self._closing[task] = None
                task.add_done_callback(self._closing.pop)

    async def close(self) -> None:
        for tp in list(self._places):
            self.stop(tp)
        self.close_idle()
        await asyncio.gather(*self._closing, return_exceptions=True)
