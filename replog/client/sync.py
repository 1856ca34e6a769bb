"""The clients for scripts without an event loop: the same calls, blocking, on one loop in a thread of its own."""

import functools
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Concatenate, ParamSpec, TypeVar

from replog.client.admin import Admin
from replog.client.blocking import Blocking
from replog.client.consuming.consumer import Consumer
from replog.client.producing.accumulator import RecordMetadata
from replog.client.producing.producer import Producer
from replog.client.records import Record

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")


class _Blocking(Blocking[Any]):
    _async_class: type[Producer] | type[Consumer] | type[Admin]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(lambda: self._async_class(*arguments, **options))


def _blocking(method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """The same method, which waits for its result."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> T:
        outcome: T = self._run(lambda: method(self._client, *arguments, **options))
        return outcome

    return call


def _on_loop(method: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[Any, P], T]:
    """The same method, run by the loop's thread."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> T:
        outcome: T = self._call(lambda: method(self._client, *arguments, **options))
        return outcome

    return call


class SyncProducer(_Blocking):
    """`Producer`; takes its arguments."""

    _async_class = Producer

    metrics = _on_loop(Producer.metrics)

    def send(self, topic: str, value: bytes | None, key: bytes | None = None, **options: Any) -> RecordMetadata:
        """Send one record and wait for its outcome."""

        async def delivered() -> RecordMetadata:
            metadata: RecordMetadata = await (await self._client.send(topic, value, key, **options))
            return metadata

        return self._run(delivered)

    def send_many(self, topic: str, values: Iterable[bytes | None], key: bytes | None = None) -> list[RecordMetadata]:
        """Send the records together and wait for all outcomes."""

        async def delivered() -> list[RecordMetadata]:
            return [await delivery for delivery in await self._client.send_many(topic, values, key)]

        return self._run(delivered)


class SyncConsumer(_Blocking):
    """`Consumer`; takes its arguments."""

    _async_class = Consumer

    def fetch(self, timeout_s: float = 1.0, max_records: int | None = None) -> list[Record]:
        return self._run(lambda: self._client.fetch(timeout_s, max_records), self._client.give_back)

    assign = _on_loop(Consumer.assign)
    seek = _on_loop(Consumer.seek)
    position = _blocking(Consumer.position)
    end_offsets = _blocking(Consumer.end_offsets)
    metrics = _on_loop(Consumer.metrics)
    offsets_for_times = _blocking(Consumer.offsets_for_times)


class SyncAdmin(_Blocking):
    """`Admin`; takes its arguments."""

    _async_class = Admin

    create_topic = _blocking(Admin.create_topic)
    create_partitions = _blocking(Admin.create_partitions)
    delete_topic = _blocking(Admin.delete_topic)
    alter_topic_configs = _blocking(Admin.alter_topic_configs)
    alter_broker_configs = _blocking(Admin.alter_broker_configs)
    report_audit = _blocking(Admin.report_audit)
    describe_audit = _blocking(Admin.describe_audit)
    unregister_broker = _blocking(Admin.unregister_broker)
    alter_client_quotas = _blocking(Admin.alter_client_quotas)
    describe_client_quotas = _blocking(Admin.describe_client_quotas)
    list_topics = _blocking(Admin.list_topics)
    describe_topic = _blocking(Admin.describe_topic)
    describe_topics = _blocking(Admin.describe_topics)
    describe_cluster = _blocking(Admin.describe_cluster)
    list_offsets = _blocking(Admin.list_offsets)
    delete_records = _blocking(Admin.delete_records)
    describe_partition_changes = _blocking(Admin.describe_partition_changes)
    describe_replicas = _blocking(Admin.describe_replicas)
    elect_leaders = _blocking(Admin.elect_leaders)
    alter_partition_reassignments = _blocking(Admin.alter_partition_reassignments)
    list_partition_reassignments = _blocking(Admin.list_partition_reassignments)
    create_acls = _blocking(Admin.create_acls)
    delete_acls = _blocking(Admin.delete_acls)
    describe_acls = _blocking(Admin.describe_acls)
    alter_replica_log_dirs = _blocking(Admin.alter_replica_log_dirs)
    describe_log_dirs = _blocking(Admin.describe_log_dirs)
