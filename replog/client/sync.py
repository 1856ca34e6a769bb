"""The clients for scripts without an event loop: the same calls, blocking, on one loop in a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from replog.client.admin import Admin
from replog.client.consuming.consumer import Consumer
from replog.client.descriptions import (
    ClusterDescription,
    ElectionResult,
    ElectionType,
    LogDirDescription,
    PartitionReassignment,
    TopicDescription,
)
from replog.client.offsets import OffsetAndTimestamp
from replog.client.producing.accumulator import Delivery, RecordMetadata
from replog.client.producing.producer import Producer
from replog.client.records import Record
from replog.errors import ReplogError
from replog.topic import TopicPartition

T = TypeVar("T")


class _Blocking:
    """A loop thread that lives from construction to `close`; calls come from one thread at a time."""

    _client: Producer | Consumer | Admin

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=type(self).__name__, daemon=True)
        self._thread.start()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        if self._loop.is_closed():
            return
        try:
            self._run(self._client.close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _made(client: type[T], arguments: tuple[Any, ...], options: dict[str, Any]) -> T:
    return client(*arguments, **options)  # on the loop, where gRPC's channels belong


class SyncProducer(_Blocking):
    """`Producer`; takes its arguments."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__()
        self._client: Producer = self._run(_made(Producer, arguments, options))

    def send(self, topic: str, value: bytes | None, key: bytes | None = None, **options: Any) -> RecordMetadata:
        """Send one record and wait for its outcome."""

        async def delivered() -> RecordMetadata:
            return await (await self._client.send(topic, value, key, **options))

        return self._run(delivered())

    def send_many(self, topic: str, values: Iterable[bytes | None], key: bytes | None = None) -> list[RecordMetadata]:
        """Send the records together and wait for all outcomes."""

        async def delivered() -> list[RecordMetadata]:
            deliveries: list[Delivery] = await self._client.send_many(topic, values, key)
            return [await delivery for delivery in deliveries]

        return self._run(delivered())


class SyncConsumer(_Blocking):
    """`Consumer`; takes its arguments."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__()
        self._client: Consumer = self._run(_made(Consumer, arguments, options))

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        self._call(self._client.assign, partitions)

    def seek(self, partition: TopicPartition | tuple[str, int], offset: int) -> None:
        self._call(self._client.seek, partition, offset)

    def fetch(self, timeout_s: float = 1.0, max_records: int | None = None) -> list[Record]:
        return self._run(self._client.fetch(timeout_s, max_records))

    def position(self, partition: TopicPartition | tuple[str, int]) -> int:
        return self._run(self._client.position(partition))

    def end_offsets(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> dict[TopicPartition, int]:
        return self._run(self._client.end_offsets(partitions))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._run(self._client.offsets_for_times(timestamps))

    def _call(self, method: Any, *arguments: Any) -> None:
        async def on_loop() -> None:
            method(*arguments)

        self._run(on_loop())


class SyncAdmin(_Blocking):
    """`Admin`; takes its arguments."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__()
        self._client: Admin = self._run(_made(Admin, arguments, options))

    def create_topic(self, topic: str, **options: Any) -> None:
        self._run(self._client.create_topic(topic, **options))

    def delete_topic(self, topic: str) -> None:
        self._run(self._client.delete_topic(topic))

    def alter_topic_configs(self, topic: str, configs: Mapping[str, str], **options: Any) -> dict[str, str]:
        return self._run(self._client.alter_topic_configs(topic, configs, **options))

    def alter_broker_configs(self, broker_id: int, configs: Mapping[str, str], **options: Any) -> dict[str, str]:
        return self._run(self._client.alter_broker_configs(broker_id, configs, **options))

    def list_topics(self) -> list[str]:
        return self._run(self._client.list_topics())

    def describe_topic(self, topic: str) -> TopicDescription:
        return self._run(self._client.describe_topic(topic))

    def describe_cluster(self) -> ClusterDescription:
        return self._run(self._client.describe_cluster())

    def elect_leaders(
        self, kind: ElectionType, partitions: Sequence[TopicPartition] | None = None
    ) -> dict[TopicPartition, ElectionResult]:
        return self._run(self._client.elect_leaders(kind, partitions))

    def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, ReplogError | None]:
        return self._run(self._client.alter_partition_reassignments(targets))

    def list_partition_reassignments(
        self, partitions: Sequence[TopicPartition] = ()
    ) -> dict[TopicPartition, PartitionReassignment]:
        return self._run(self._client.list_partition_reassignments(partitions))

    def alter_replica_log_dirs(
        self, broker_id: int, moves: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, ReplogError | None]:
        return self._run(self._client.alter_replica_log_dirs(broker_id, moves))

    def describe_log_dirs(
        self, broker_ids: Sequence[int], topics: Sequence[str] = ()
    ) -> dict[int, tuple[LogDirDescription, ...]]:
        return self._run(self._client.describe_log_dirs(broker_ids, topics))
