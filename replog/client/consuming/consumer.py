"""The consumer: assigned partitions in, records out, positions kept by the application."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, Self, TypeVar

from replog.client.arguments import (
    Partition,
    by_partition,
    check_settings,
    check_timeout,
    check_type,
    each,
    partition_of,
    partitions_of,
    whole,
)
from replog.client.consuming.fetch_stream import FetchSettings
from replog.client.consuming.fetcher import D, Decode, Fetcher
from replog.client.consuming.subscription import AssignedPartition, LogTruncated, TopicRecreated
from replog.client.counts import Counts
from replog.client.metadata import Metadata
from replog.client.offsets import EARLIEST, LATEST, OffsetAndTimestamp, list_offsets
from replog.client.records import K, Record, V
from replog.common.backoff import Backoff
from replog.config.properties import MAX_INT, MAX_LONG
from replog.errors import ErrorCode, PositionError, ReplogError
from replog.rpc.transport import Transport
from replog.rpc.transports import PathLike, client_transport
from replog.topic import TopicPartition, validate_topic_name

__all__ = ["Consumer", "DeserializationFailed", "LogTruncated", "TopicRecreated"]

RETRY_BACKOFF_MAX_MS = 500
_RESETS = {"earliest": EARLIEST, "latest": LATEST, "error": None}

T = TypeVar("T")
IsolationLevel = Literal["read_uncommitted", "read_committed"]


class DeserializationFailed(PositionError):
    """A deserializer raised for `record`, whose key and value are bytes here. Seek behind its offset to go on."""

    def __init__(self, field: str, record: Record, cause: Exception) -> None:
        super().__init__(
            ErrorCode.INVALID_RECORD,
            f"{field}_deserializer could not read the {field} of record {record.offset} of {record.topic}-"
            f"{record.partition}: {cause!r:.200}; seek to {record.offset + 1} to go on",
        )
        self.record = record


class Consumer(Generic[K, V]):
    """Reads assigned partitions, each in offset order. Use it from one event loop.

    With `client_rack` it reads from replicas in that rack (their broker's `broker.rack`), if the cluster has a
    `replica.selector.class`; otherwise, and when such a replica fails, from leaders (FE-20).

    With `isolation_level` "read_committed" it reads up to the first open transaction, and skips the records of aborted
    ones (LG-9). It reads records outside of transactions at either level.

    `key_deserializer` and `value_deserializer` make keys and values of their bytes; None stays None."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 1 << 20,  # messages of about 1 MiB were the fastest
        fetch_max_wait_ms: int = 500,
        max_partition_fetch_bytes: int = 1 << 20,
        auto_offset_reset: Literal["earliest", "latest", "error"] = "latest",
        client_rack: str = "",
        key_deserializer: Callable[[bytes], K] | None = None,
        value_deserializer: Callable[[bytes], V] | None = None,
        request_timeout_ms: int = 30_000,
        ssl_truststore_location: PathLike = None,
        ssl_keystore_location: PathLike = None,
        transport: Transport | None = None,
        rng: random.Random | None = None,
    ) -> None:
        sizes = {"fetch_max_bytes": fetch_max_bytes, "max_partition_fetch_bytes": max_partition_fetch_bytes}
        check_settings(1, MAX_INT, int, **sizes)
        check_settings(0, MAX_INT, int, fetch_min_bytes=fetch_min_bytes, fetch_max_wait_ms=fetch_max_wait_ms)
        check_settings(1, request_timeout_ms=request_timeout_ms)
        if isolation_level not in ("read_uncommitted", "read_committed"):
            raise ErrorCode.INVALID_CONFIG.error(
                f"isolation_level={isolation_level!r}: read_uncommitted or read_committed"
            )
        if auto_offset_reset not in _RESETS:
            raise ErrorCode.INVALID_CONFIG.error(f"auto_offset_reset={auto_offset_reset!r}: earliest, latest or error")
        rng = rng or random.Random()
        self._backoff = Backoff(rng, max_ms=RETRY_BACKOFF_MAX_MS)
        self._metadata = Metadata(
            bootstrap, transport or client_transport(ssl_truststore_location, ssl_keystore_location), rng, "consumer"
        )
        self.life = self._metadata.life
        check_type(
            Callable | None, "a function", key_deserializer=key_deserializer, value_deserializer=value_deserializer
        )
        check_type(str, "text", client_rack=client_rack)
        deserializers = {"key": key_deserializer, "value": value_deserializer}
        self._deserializers = {field: made for field, made in deserializers.items() if made is not None}
        self._read_committed = isolation_level == "read_committed"
        self._fetcher = Fetcher(
            self._metadata,
            self._backoff,
            FetchSettings(
                read_committed=self._read_committed,
                min_bytes=fetch_min_bytes,
                max_bytes=fetch_max_bytes,
                partition_max_bytes=max_partition_fetch_bytes,
                max_wait_ms=fetch_max_wait_ms,
                request_timeout_s=request_timeout_ms / 1000,
                client_rack=client_rack,
                reset=_RESETS[auto_offset_reset],
            ),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read exactly these from now on. One that was assigned keeps its position, a new one starts by the policy."""
        self.life.check()
        wanted = partitions_of(partitions)
        self._metadata.want(partition.topic for partition in wanted)
        self._fetcher.assign(wanted)

    async def partitions_for(self, topic: str, timeout_s: float = 30.0) -> list[int]:
        """Return the topic's partitions, in order. Raises UNKNOWN_TOPIC_OR_PARTITION after `timeout_s`."""
        return sorted((await self._metadata.topic(topic, timeout_s)).partitions)

    def topic_id(self, topic: str) -> bytes | None:
        """Return the topic's id by the newest metadata, which fetches name (FE-1); None if the topic is not known."""
        self.life.check(closed_too=False)
        view = self._metadata.view.topics.get(validate_topic_name(topic))
        return None if view is None else view.topic_id

    @property
    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions, in the order given."""
        self.life.check(closed_too=False)
        return list(self._fetcher.states)

    def seek(self, partition: Partition, offset: int, topic_id: bytes | None = None) -> None:
        """Read on from `offset`. It is checked by the next fetch, and reset by the policy if out of range.

        With the id of the topic that the offset was in (`topic_id`), a topic that was made again is noticed."""
        check_type(bytes | None, "bytes or None", topic_id=topic_id)
        if (offset := whole("offset", offset, MAX_LONG)) < 0:
            raise ErrorCode.OFFSET_OUT_OF_RANGE.error(f"cannot seek to offset {offset}; offsets start at 0")
        self._fetcher.go_to(self._assigned(partition), offset, topic_id)

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Read on from the first offset of these partitions; none named: of all that are assigned."""
        for partition in partitions or self.assignment:
            self._fetcher.replace(AssignedPartition(self._assigned(partition), None, EARLIEST))

    def seek_to_end(self, *partitions: Partition) -> None:
        """Read on from these partitions' high watermark, which is looked up after this call; none named: of all."""
        for partition in partitions or self.assignment:
            self._fetcher.replace(AssignedPartition(self._assigned(partition), None, LATEST))

    def pause(self, *partitions: Partition) -> None:
        """Have `fetch` return no records of these until `resume`. Positions stay; records read ahead are read again."""
        for partition in partitions:
            self._fetcher.pause(self._assigned(partition))

    def resume(self, *partitions: Partition) -> None:
        """Have `fetch` return records of these again."""
        for partition in partitions:
            self._fetcher.resume(self._assigned(partition))

    async def position(self, partition: Partition, timeout_s: float = 30.0) -> int:
        """Wait for and return the offset of the next record that `fetch` will return. Raises REQUEST_TIMED_OUT."""
        wanted = self._assigned(partition)

        def known() -> int | None:
            state = self._fetcher.states[self._assigned(wanted)]
            if state.error is not None:
                raise state.error
            return state.position

        if (position := await self._awaited(known, timeout_s)) is None:
            raise ErrorCode.REQUEST_TIMED_OUT.error(f"the position of {wanted} is not known after {timeout_s:g} s")
        return position

    async def beginning_offsets(
        self, partitions: Iterable[Partition], timeout_s: float = 30.0
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return await self._bounds(partitions, EARLIEST, timeout_s)

    async def end_offsets(self, partitions: Iterable[Partition], timeout_s: float = 30.0) -> dict[TopicPartition, int]:
        """Return the high watermarks, or last stable offsets when reading committed: where readers wait (FE-22)."""
        return await self._bounds(partitions, LATEST, timeout_s)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_s: float = 30.0
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offset at or after each timestamp (ms since the epoch); None if all records are older."""
        timestamps = by_partition("timestamps", timestamps)
        for partition, timestamp in timestamps.items():
            if whole(f"the timestamp of {partition}", timestamp, MAX_LONG) < 0:
                raise ErrorCode.INVALID_TIMESTAMP.error(f"timestamp {timestamp} of {partition} is negative")
        return await self._list_offsets(timestamps, timeout_s)

    async def fetch(self, timeout_s: float = 1.0, max_records: int | None = None) -> list[Record[K, V]]:
        """Return the next records of one partition, in order; none if none came in time.

        Raises INVALID_REQUEST if nothing is assigned. Raises the error of a partition that cannot go on (LogTruncated,
        OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, DeserializationFailed) at every call until a `seek` mends it."""
        if max_records is not None:
            check_settings(1, MAX_INT, int, max_records=max_records)
        return await self._awaited(lambda: self._take(max_records) or None, timeout_s) or []

    async def fetch_many(self, timeout_s: float = 1.0, max_records: int = 500) -> list[Record[K, V]]:
        """Return the next records of all partitions that have some by now, each partition's in order; see `fetch`."""
        taken = more = await self.fetch(timeout_s, max_records)
        while more and len(taken) < max_records:
            try:
                more = self._take(max_records - len(taken))
            except ReplogError:
                break  # the next call raises it
            taken = taken + more
        return taken

    def _take(self, max_records: int | None) -> list[Record[K, V]]:
        taken: list[Any] = self._fetcher.take(max_records)
        for at, record in enumerate(taken if self._deserializers else ()):
            for field, deserialize in self._deserializers.items():
                if (raw := getattr(record, field)) is None:
                    continue
                try:
                    taken[at] = taken[at]._replace(**{field: deserialize(raw)})
                except Exception as error:
                    self.give_back(taken[at:])
                    if at:
                        return taken[:at]  # the next call raises it
                    raise DeserializationFailed(field, record, error) from error
                except BaseException:  # an interrupt
                    self.give_back(taken)
                    raise
        return taken

    async def fetch_decoded(self, decode: Decode[D], timeout_s: float = 1.0) -> D | None:
        """Return what `decode` makes of the next batches of one partition, as they came from the broker, and of their
        aborted transactions; None if none came in time.

        The position moves to the result's `next_offset`. Do not mix it with `fetch` for the same assignment."""
        check_type(Callable, "a function", decode=decode)
        return await self._awaited(lambda: self._fetcher.take_decoded(decode), timeout_s)

    async def _awaited(self, get: Callable[[], T | None], timeout_s: float) -> T | None:
        """Return what `get` does, once that is something; None if it is nothing in time."""
        self.life.check()
        check_timeout(timeout_s)
        value = get()
        if value is None and not self._fetcher.states:
            raise ErrorCode.INVALID_REQUEST.error("nothing is assigned; call assign first")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while value is None:
                    self._fetcher.news.clear()
                    await self._fetcher.news.wait()
                    self.life.check()
                    value = get()
        return value

    def give_back(self, records: Sequence[Record[K, V]]) -> None:
        """Read records that were fetched last again, from the first one of each partition."""
        self.life.check()
        given = reversed(each(Record, "a record", "records", records, "records"))
        firsts = {TopicPartition(record.topic, record.partition): record.offset for record in given}
        for partition in firsts.keys() & self._fetcher.states.keys():
            self._fetcher.go_back(partition, firsts[partition])

    def metrics(self) -> Counts:
        """Return counts under the names of Kafka's consumer: records, bytes, fetches and their latency in ms, and by
        how many offsets the partition that is furthest behind lags."""
        self.life.check(closed_too=False)
        return {**self._fetcher.counts.shown(), "records-lag-max": self._fetcher.lag()}

    async def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        """Yields record after record, without end. `position` follows each."""
        self.life.check()
        while not self.life.refusal or self.life.is_copy:
            for record in await self.fetch(max_records=1):
                yield record

    async def close(self) -> None:
        """End every stream. Calling it again does nothing."""
        self.life.close()
        await self.life.end(self._end)

    async def _end(self) -> None:
        try:
            await self._fetcher.close()
        finally:
            await self._metadata.close()

    async def _bounds(
        self, partitions: Iterable[Partition], timestamp: int, timeout_s: float
    ) -> dict[TopicPartition, int]:
        offsets = await self._list_offsets(dict.fromkeys(partitions_of(partitions), timestamp), timeout_s)
        return {partition: offset.offset for partition, offset in offsets.items() if offset is not None}

    async def _list_offsets(
        self, timestamps: Mapping[TopicPartition, int], timeout_s: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return await list_offsets(
            self._metadata, self._backoff, timestamps, read_committed=self._read_committed, timeout_s=timeout_s
        )

    def _assigned(self, partition: Partition) -> TopicPartition:
        self.life.check()
        partition = partition_of(partition)
        if partition not in self._fetcher.states:
            raise ErrorCode.INVALID_REQUEST.error(f"{partition} is not assigned; assign it first")
        return partition
