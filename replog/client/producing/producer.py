"""The producer: records in, batches out, outcomes back."""

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Generic, Literal, Self

from replog.client.arguments import check_record, check_settings, check_timeout, check_type, listed, whole
from replog.client.counts import Counts
from replog.client.lifetime import warn_if_long
from replog.client.metadata import Metadata
from replog.client.producing.accumulator import Accumulator, PartitionQueue
from replog.client.producing.deliveries import Delivery, DeliveryFailed, RecordMetadata
from replog.client.producing.idempotence import Identity
from replog.client.producing.partitioner import StickyPartitioner, partition_for_key
from replog.client.producing.sender import Sender
from replog.client.records import MAX_TIMESTAMP_MS, Headers, K, V, codec_id, largest_batch_of
from replog.common.backoff import Backoff
from replog.config.properties import MAX_BATCH_BYTES, MAX_INT, MAX_LONG
from replog.errors import ErrorCode
from replog.rpc.transport import Transport
from replog.rpc.transports import PathLike, client_transport

__all__ = ["Delivery", "DeliveryFailed", "Producer", "RecordMetadata"]

MAX_BATCH_SIZE = 1 << 20
INTERRUPTED_S = 1.0
Partitioner = Callable[[bytes | None, int], int | None]
_BYTES_A_TURN = 256 << 10
_ACKS = {"all": -1, "1": 1, "0": 0, "-1": -1}


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Producer(Generic[K, V]):
    """Sends records to the leaders of their partitions, in order per partition, each once.

    Retriable errors are retried until `delivery_timeout_ms`. Others fail every record of their batch at once.
    With acks="all" the producer is idempotent by default (`enable_idempotence`): during its life an acknowledged record
    is stored exactly once, and a failed record once or not at all, through broker and connection failures. If the
    application sends a record again, that is another record. Without idempotence a batch whose answer was lost may be
    stored twice.

    `partitioner` chooses the partition of a record sent without one, by its key and the number of partitions; if it
    returns None, the producer chooses.

    `key_serializer` and `value_serializer` make the bytes of a key and a value; None stays None."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        acks: Literal["all", 1, 0] = "all",
        enable_idempotence: bool | None = None,
        linger_ms: float = 0,
        batch_size: int = 262_144,  # five batches of a partition may be in flight
        compression: str = "none",
        partitioner: Partitioner | None = None,
        key_serializer: Callable[[K], bytes] | None = None,
        value_serializer: Callable[[V], bytes] | None = None,
        max_request_bytes: int = 1 << 20,
        buffer_memory: int = 32 << 20,
        max_block_ms: int = 60_000,
        delivery_timeout_ms: int = 120_000,
        request_timeout_ms: int = 30_000,
        ssl_truststore_location: PathLike = None,
        ssl_keystore_location: PathLike = None,
        transport: Transport | None = None,
        rng: random.Random | None = None,
        wall_clock_ms: Callable[[], int] = _wall_ms,
    ) -> None:
        check_settings(0, linger_ms=linger_ms)
        check_settings(1, delivery_timeout_ms=delivery_timeout_ms, max_block_ms=max_block_ms)
        check_settings(1, MAX_INT, request_timeout_ms=request_timeout_ms)
        check_settings(1, MAX_LONG, int, buffer_memory=buffer_memory)
        check_settings(1, MAX_BATCH_SIZE, int, batch_size=batch_size)
        check_settings(1, MAX_BATCH_BYTES, int, max_request_bytes=max_request_bytes)
        functions = {"partitioner": partitioner, "key_serializer": key_serializer, "value_serializer": value_serializer}
        check_type(Callable | None, "a function", **functions)
        check_type(bool | None, "True or False", enable_idempotence=enable_idempotence)
        if str(acks) not in _ACKS:
            raise ErrorCode.INVALID_CONFIG.error(f"acks={acks!r}: choose 'all', 1 or 0")
        if enable_idempotence and _ACKS[str(acks)] != -1:
            raise ErrorCode.INVALID_CONFIG.error(f"enable_idempotence needs acks='all', not acks={acks!r}")
        rng = rng or random.Random()
        self._max_request_bytes = max_request_bytes
        self._buffer_memory = buffer_memory
        self._max_block_s = max_block_ms / 1000
        self._batches_a_turn = max(1, _BYTES_A_TURN // batch_size)  # one call may fill so many before the sender runs
        self._wall_ms = wall_clock_ms
        self._partitioner = partitioner
        self._key_bytes, self._value_bytes = key_serializer, value_serializer
        self._sticky = StickyPartitioner(rng)
        self._metadata = Metadata(
            bootstrap, transport or client_transport(ssl_truststore_location, ssl_keystore_location), rng, "producer"
        )
        self.life = self._metadata.life
        idempotent = _ACKS[str(acks)] == -1 if enable_idempotence is None else enable_idempotence
        self._identity = Identity() if idempotent else None
        self._sender = Sender(
            self._metadata,
            Backoff(rng),
            acks=_ACKS[str(acks)],
            max_request_bytes=max_request_bytes,
            request_timeout_s=request_timeout_ms / 1000,
            delivery_timeout_s=delivery_timeout_ms / 1000,
            identity=self._identity,
        )
        self._accumulator = self._sender.accumulator = Accumulator(
            batch_size=min(batch_size, max_request_bytes),
            codec_number=codec_id(compression),
            buffer_memory=buffer_memory,
            linger_s=linger_ms / 1000,
            clock=lambda: asyncio.get_running_loop().time(),
            ready=self._sender.ready,
            later=lambda delay_s, call: asyncio.get_running_loop().call_later(delay_s, call),
            identity=self._identity,
        )
        self._running = False

    async def start(self) -> Self:
        """Start the producer. `send` does it if needed. Does not wait for a broker."""
        self.life.check()
        if not self._running:
            self._running = True
            self._sender.start()
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close it; after Ctrl-C or a cancellation wait for outcomes no longer than `INTERRUPTED_S`."""
        await self.close(None if kind is None or issubclass(kind, Exception) else INTERRUPTED_S)

    async def send(
        self,
        topic: str,
        value: V | None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Put a record into a batch and return its future outcome: `await (await producer.send(...))`.

        Without a partition, the key chooses it (murmur2, like every Kafka client); without a key, it is the batch's.
        Waits, up to `max_block_ms`, while the topic is not known or the buffer is full. Raises MESSAGE_TOO_LARGE,
        UNKNOWN_TOPIC_OR_PARTITION, INVALID_TIMESTAMP, REQUEST_TIMED_OUT (buffer), NETWORK_EXCEPTION (no broker)."""
        key_data: Any = key if key is None or self._key_bytes is None else self._key_bytes(key)
        data: Any = value if value is None or self._value_bytes is None else self._value_bytes(value)
        try:
            if timestamp_ms is None:
                timestamp_ms = self._wall_ms()
            elif timestamp_ms.__class__ is not int:
                timestamp_ms = whole("timestamp_ms", timestamp_ms, MAX_LONG)
            if not 0 <= timestamp_ms <= MAX_TIMESTAMP_MS:
                raise ErrorCode.INVALID_TIMESTAMP.error(f"timestamp {timestamp_ms} is not 0 to 2^63-1 ms")
            if partition is None and self._partitioner is not None:
                partition = await self._chosen(topic, key_data, self._partitioner)
            queue = self._current(topic, key_data, partition)
            if queue is not None:
                delivery = self._accumulator.append_to_open(queue, timestamp_ms, key_data, data, headers)
                if delivery is not None:
                    return delivery
            queue = await self._room_in(topic, key_data, partition, largest_batch_of(key_data, data, headers))
            delivery = self._accumulator.append(queue, timestamp_ms, key_data, data, headers)
        except (TypeError, ValueError, AttributeError):
            check_record(topic, data, key_data, partition, timestamp_ms, headers)
            raise
        await asyncio.sleep(0)  # otherwise the sender would not run while the caller only sends
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: V | None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> RecordMetadata:
        """Send a record like `send`, and wait for its outcome. Raises DeliveryFailed, too."""
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    async def send_many(
        self, topic: str, values: Iterable[V | None], key: K | None = None, partition: int | None = None
    ) -> list[Delivery]:
        """Send values in order, for less CPU than `send`. When it returns, all of them are in batches."""
        self.life.check()
        key_data: Any = key if key is None or self._key_bytes is None else self._key_bytes(key)
        check_record(topic, None, key_data, partition, None, ())
        if partition is None and self._partitioner is not None:
            partition = await self._chosen(topic, key_data, self._partitioner)
        data: Iterable[Any] = listed("values", values, "bytes")
        if (encode := self._value_bytes) is not None:
            data = [value if value is None else encode(value) for value in data]
        accumulator, deliveries, rest = self._accumulator, list[Delivery](), iter(data)
        queue, timestamp_ms = self._current(topic, key_data, partition), self._wall_ms()
        begun = 0
        while True:
            if queue is None:
                left = tuple(islice(rest, 1))
            else:
                try:
                    left = accumulator.append_many_to_open(queue, timestamp_ms, key_data, rest, deliveries)
                except TypeError as error:
                    raise TypeError("each of values must be bytes or None; encode text") from error
            if not left:
                break
            begun += 1
            if begun % self._batches_a_turn == 0:
                await asyncio.sleep(0)  # otherwise the sender would not run
            check_record(topic, left[0], key_data, partition, None, ())
            queue = await self._room_in(topic, key_data, partition, largest_batch_of(key_data, left[0], ()))
            timestamp_ms = self._wall_ms()
            deliveries.append(accumulator.append(queue, timestamp_ms, key_data, left[0], ()))
        await asyncio.sleep(0)
        return deliveries

    async def flush(self) -> None:
        """Send what lingers, and wait until every record sent so far has its outcome. Raises no errors of records."""
        self.life.check()
        await self._flush()

    async def _flush(self) -> None:
        self._accumulator.flushing += 1
        try:
            self._accumulator.send_open_batches()
            for batch in self._accumulator.unsettled():
                await batch.outcome
        finally:
            self._accumulator.flushing -= 1

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush, then end every stream. Records without an outcome after `timeout_s` (None: the delivery timeout) fail.
        Calling it again does nothing."""
        check_timeout(0 if timeout_s is None else timeout_s)
        self.life.close()
        try:
            if not self.life.is_copy:
                async with asyncio.timeout(timeout_s), warn_if_long(self._waits_for):
                    await self._flush()
        except TimeoutError:
            pass
        finally:
            await self.life.end(self._end)

    def _waits_for(self) -> str:
        records = sum(batch.records.count for batch in self._accumulator.unsettled())
        return f"closing waits for the outcomes of {records} records; cancel it (Ctrl-C, once more) to give them up"

    async def _end(self) -> None:
        try:
            await self._sender.stop()
        finally:
            await self._metadata.close()

    def metrics(self) -> Counts:
        """Return counts under the names of Kafka's producer: records, requests and their latency in ms, bytes of the
        buffer."""
        self.life.check(closed_too=False)
        used = self._accumulator.used_bytes
        return {
            **self._accumulator.counts.shown(),
            "buffer-total-bytes": self._buffer_memory,
            "buffer-available-bytes": self._buffer_memory - used,
        }

    def _current(self, topic: str, key: bytes | None, partition: int | None) -> PartitionQueue | None:
        """Return the queue of the record's partition; None if it is not known without waiting."""
        if partition.__class__ is not int and partition is not None:
            partition = whole("partition", partition)
        queues = self._accumulator.topics.get(topic)
        if queues is None or not self._running or self.life.refusal:
            return None
        if partition is None:
            partition = self._sticky.current(topic) if key is None else partition_for_key(key, len(queues))
        return queues[partition] if partition is not None and 0 <= partition < len(queues) else None

    async def _room_in(self, topic: str, key: bytes | None, partition: int | None, size: int) -> PartitionQueue:
        """Wait until the buffer has room for a record of up to `size` bytes, and return the record's queue."""
        await self.start()
        for name, most in (("max_request_bytes", self._max_request_bytes), ("buffer_memory", self._buffer_memory)):
            if size > most:
                raise ErrorCode.MESSAGE_TOO_LARGE.error(
                    f"a record for {topic!r} takes up to {size} bytes, counted before compression, more than "
                    f"{name}={most}; raise that (a record has {MAX_BATCH_BYTES} bytes at most)"
                )
        queues = self._accumulator.topics.get(topic)
        if queues is None:
            queues = await self._load(topic)
        if not self._accumulator.has_room(size):
            await self._accumulator.wait_for_room(size, self._max_block_s)
            self.life.check()
            current = self._current(topic, key, partition)
            if current is not None and current.open is not None:
                return current
        if partition is not None and not 0 <= partition < len(queues):
            raise ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.error(
                f"topic {topic!r} has partitions 0 to {len(queues) - 1}, not {partition}"
            )
        if partition is None:
            if key is None:
                view = self._metadata.view.topics.get(topic)  # new partitions have no queue yet
                led = () if view is None or len(view.partitions) > len(queues) else view.led
                partition = self._sticky.switch(topic, led or range(len(queues)))
            else:
                partition = partition_for_key(key, len(queues))
        return queues[partition]

    async def _chosen(self, topic: str, key: bytes | None, partitioner: Partitioner) -> int | None:
        self.life.check()
        return partitioner(key, len(self._accumulator.topics.get(topic) or await self._load(topic)))

    async def _load(self, topic: str) -> list[PartitionQueue]:
        view = await self._metadata.topic(topic, self._max_block_s)
        self.life.check()
        if not view.partitions:
            raise ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.error(f"topic {topic!r} has no partitions")
        return self._accumulator.grow(topic, max(view.partitions) + 1, view.max_batch_bytes, view.topic_id)
