"""The follower's side of replication on the wire: one fetcher per leader broker, one stream per fetcher (FT-1..FT-6).

The stream is the fetch session: a request names only the partitions whose fetch changed since the last one. One
request is outstanding at a time, but for one more when partitions were added while the last is parked; responses are
matched by offset and epoch (FT-8), so their order does not matter. What a response means is for the roles to say.
"""

import asyncio
from collections.abc import Callable

import structlog

from cluster.broker.partition import HostedPartition
from cluster.clock import Clock
from follower.partition import PartitionFollower
from replog.backoff import Backoff
from replog.config import BrokerConfig
from replog.errors import ErrorCode, ReplogError
from replog.fetch import FetchAnswer, FetchPartition
from replog.log.offsets import EpochEndOffset
from replog.quota import ReplicationQuota
from replog.rpc import methods
from replog.rpc.codec import WithRecords
from replog.rpc.transport import Channel, Stream
from replog.rpc.v1 import replica_pb2 as pb
from replog.topic import TopicPartition

log = structlog.get_logger()

OnProgress = Callable[[HostedPartition], None]


class Fetcher:
    """Copies every partition added to it from one leader, until closed."""

    def __init__(
        self,
        config: BrokerConfig,
        channel: Channel,
        broker_epoch: int,
        clock: Clock,
        backoff: Backoff,
        on_high_watermark: OnProgress,
        quota: ReplicationQuota,
    ) -> None:
        self._config = config
        self._channel = channel
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._backoff = backoff
        self._on_high_watermark = on_high_watermark
        self._quota = quota
        self._partitions: dict[TopicPartition, HostedPartition] = {}  # in fetch order (FE-10)
        self._named: dict[TopicPartition, tuple[bytes, FetchPartition]] = {}  # the stream's session, with topic ids
        self._outstanding = 0
        self._last_sent_ms = 0
        self._wake = asyncio.Event()
        self._added = False
        self._throttled: set[TopicPartition] = set()  # left out of the last request
        self._task = asyncio.create_task(self._run(), name=f"fetcher from {channel.address}")

    def add(self, hosted: HostedPartition) -> None:
        self._partitions[hosted.topic_partition] = hosted
        self._added = True
        self._wake.set()

    def remove(self, tp: TopicPartition) -> None:
        """From here on nothing that arrives for `tp` is looked at."""
        if self._partitions.pop(tp, None) is not None:
            self._wake.set()

    @property
    def empty(self) -> bool:
        return not self._partitions

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._channel.close()

    async def _run(self) -> None:
        while True:
            try:
                await self._session()
                reason = "the leader ended the stream"
            except ReplogError as error:
                reason = str(error)
            except Exception as error:
                log.exception("fetcher failed", leader=self._channel.address)
                reason = repr(error)
            log.info("fetch stream lost", leader=self._channel.address, reason=reason)
            now_ms = self._clock.monotonic_ms()
            for tp, (_, request) in self._named.items():
                if (hosted := self._partitions.get(tp)) is not None and hosted.follower is not None:
                    hosted.follower.on_failure(request, now_ms)
            await asyncio.sleep(self._backoff.next_s())

    async def _session(self) -> None:
        """One stream, from its first request to its failure."""
        self._named = {}
        self._outstanding = 0
        stream = self._channel.open(methods.Replica["fetch"])
        reader = asyncio.create_task(self._read(stream))
        reader.add_done_callback(lambda _: self._wake.set())
        try:
            self._wake.set()
            while True:
                await self._wait(reader)
                if self._outstanding == 0 or (self._added and self._outstanding == 1):
                    request = self._next_request()
                    if request is not None:
                        self._outstanding += 1
                        self._last_sent_ms = self._clock.monotonic_ms()
                        await stream.send(request)
        finally:
            stream.cancel()
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _wait(self, reader: "asyncio.Task[None]") -> None:
        """Until something changed, a delayed partition may be tried again, or the leader has been silent too long."""
        timeout_ms = self._config.replica_socket_timeout_ms
        now_ms = self._clock.monotonic_ms()
        retries = [  # while a request is outstanding they wait for its answer
            hosted.follower.next_retry_ms
            for tp, hosted in self._partitions.items()
            if not self._outstanding and tp not in self._throttled
            if hosted.follower is not None and hosted.follower.next_retry_ms is not None
        ]
        if self._throttled and not self._outstanding:
            retries.append(now_ms + self._config.replica_fetch_backoff_ms)
        delay_ms = max(0, min([timeout_ms, *(retry - now_ms for retry in retries)]))
        try:
            async with asyncio.timeout(delay_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()
        if reader.done():
            reader.result()  # raises what ended it
            raise ReplogError(ErrorCode.NETWORK_EXCEPTION, f"{self._channel.address} ended the stream")
        if self._outstanding and self._clock.monotonic_ms() - self._last_sent_ms > timeout_ms:
            raise ReplogError(
                ErrorCode.REQUEST_TIMED_OUT, f"{self._channel.address} did not answer within {timeout_ms} ms"
            )

    def _next_request(self) -> pb.ReplicaFetchRequest | None:
        """What changed since the last request; None when no partition is ready (FT-6)."""
        now_ms = self._clock.monotonic_ms()
        wanted: dict[TopicPartition, tuple[bytes, FetchPartition]] = {}
        self._throttled.clear()
        for tp, hosted in self._partitions.items():
            follower = hosted.follower
            if follower is None or self._is_throttled(hosted, follower, now_ms):
                continue
            try:
                fetch = follower.next_fetch(now_ms, self._config.replica_fetch_max_bytes)
            except Exception as error:  # noqa: BLE001
                self._partition_failed(tp, follower, error)
                continue
            if fetch is not None:
                wanted[tp] = (hosted.topic_id, fetch)
        forgotten = [tp for tp in self._named if tp not in wanted]
        changed = {tp: named for tp, named in wanted.items() if self._named.get(tp) != named}
        self._named = wanted
        self._added = False
        if not wanted and not forgotten:
            return None
        return pb.ReplicaFetchRequest(
            replica_id=self._config.node_id,
            broker_epoch=self._broker_epoch,
            max_wait_ms=self._config.replica_fetch_wait_max_ms,
            min_bytes=self._config.replica_fetch_min_bytes,
            max_bytes=self._config.replica_fetch_response_max_bytes,
            partitions=[_named_partition(tp, *named) for tp, named in changed.items()],
            forgotten=[pb.ForgottenPartition(topic=tp.topic, partition=tp.partition) for tp in forgotten],
        )

    def _is_throttled(self, hosted: HostedPartition, follower: PartitionFollower, now_ms: int) -> bool:
        """Whether the partition waits: it is listed and not in sync, and enough has been copied of late (FT-6).

        In sync is who has no lag (FT-7), and a member of the ISR that does not know its lag yet, after an election.
        """
        in_sync = follower.lag == 0 or (follower.lag is None and self._config.node_id in follower.isr)
        if in_sync or not hosted.follower_throttled or not self._quota.is_exceeded(now_ms):
            return False
        self._throttled.add(hosted.topic_partition)
        return True

    def _partition_failed(self, tp: TopicPartition, follower: PartitionFollower, error: Exception) -> None:
        """One partition's trouble, whatever it is, is not the others' (FT-12); a disk's ends the broker."""
        if not isinstance(error, ReplogError) or error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            log.exception("replication failed", partition=str(tp), leader=self._channel.address, exc_info=error)
            follower.on_defect(repr(error))

    async def _read(self, stream: Stream) -> None:
        while (response := await stream.receive()) is not None:
            self._backoff.reset()
            if response.head.pushed:
                self._take_high_watermarks(response.head)
            else:
                self._outstanding -= 1
                self._take_answers(response)
                self._wake.set()

    def _take_high_watermarks(self, head: pb.ReplicaFetchResponse) -> None:
        for result in head.partitions:
            hosted = self._partitions.get(TopicPartition(result.topic, result.partition))
            if hosted is not None and hosted.topic_id == result.topic_id:
                self._take_high_watermark(hosted, result)

    def _take_high_watermark(self, hosted: HostedPartition, result: pb.ReplicaFetchPartitionResult) -> None:
        follower = hosted.follower
        if follower is not None and follower.on_high_watermark(result.leader_epoch, result.high_watermark):
            self._on_high_watermark(hosted)

    def _take_answers(self, response: WithRecords[pb.ReplicaFetchResponse]) -> None:
        payload = memoryview(response.records[0]) if response.records else memoryview(b"")
        position = 0
        for result in response.head.partitions:
            records = payload[position : position + result.records_size]
            position += result.records_size
            tp = TopicPartition(result.topic, result.partition)
            hosted, named = self._partitions.get(tp), self._named.get(tp)
            if hosted is not None and hosted.follower_throttled:  # in sync or not: it has passed (KIP-73)
                self._quota.record(len(records), self._clock.monotonic_ms())
            if hosted is None or hosted.follower is None or named is None or hosted.topic_id != result.topic_id:
                continue
            _, request = named
            if result.fetch_offset != request.fetch_offset or result.leader_epoch != request.current_leader_epoch:
                # the answer to an earlier question (FT-8), but the leader does not tell its high watermark twice
                if not result.error_code and not result.HasField("diverging_epoch"):
                    self._take_high_watermark(hosted, result)
                continue
            try:
                self._take_answer(hosted, hosted.follower, request, _answer(result, records))
            except Exception as error:  # noqa: BLE001
                self._partition_failed(tp, hosted.follower, error)

    def _take_answer(
        self, hosted: HostedPartition, follower: PartitionFollower, request: FetchPartition, answer: FetchAnswer
    ) -> None:
        tp, known = hosted.topic_partition, hosted.log.high_watermark
        progress = follower.on_answer(request, answer, self._clock.monotonic_ms())
        if progress.truncated_to is not None:
            log.info("truncated", partition=str(tp), to_offset=progress.truncated_to, leader=self._channel.address)
        if progress.note:
            tell = log.error if progress.alarm else log.warning
            tell("replication", partition=str(tp), note=progress.note)
        elif hosted.log.high_watermark < known and progress.truncated_to is None:
            log.info("high watermark fell", partition=str(tp), was=known, told=answer.high_watermark)  # HW-14
        if progress.appended_bytes:
            self._partitions[tp] = self._partitions.pop(tp)  # to the end of the list (FE-10)
        if progress.high_watermark_changed or progress.truncated_to is not None:
            self._on_high_watermark(hosted)  # consumers wait here, too (FE-14, FT-4)


def _named_partition(tp: TopicPartition, topic_id: bytes, fetch: FetchPartition) -> pb.ReplicaFetchPartition:
    return pb.ReplicaFetchPartition(
        topic=tp.topic,
        partition=tp.partition,
        topic_id=topic_id,
        current_leader_epoch=fetch.current_leader_epoch if fetch.current_leader_epoch is not None else -1,
        fetch_offset=fetch.fetch_offset,
        last_fetched_epoch=fetch.last_fetched_epoch if fetch.last_fetched_epoch is not None else -1,
        log_start_offset=fetch.log_start_offset,
        partition_max_bytes=fetch.max_bytes,
    )


def _answer(result: pb.ReplicaFetchPartitionResult, records: memoryview) -> FetchAnswer:
    diverging = None
    if result.HasField("diverging_epoch"):
        diverging = EpochEndOffset(result.diverging_epoch.epoch, result.diverging_epoch.end_offset)
    return FetchAnswer(
        error=ErrorCode(result.error_code),
        high_watermark=result.high_watermark,
        log_start_offset=result.log_start_offset,
        log_end_offset=result.log_end_offset,
        diverging=diverging,
        records=records,
    )
