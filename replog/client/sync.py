"""The clients for scripts without an event loop. Made by `make generate` from the async ones: do not edit."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from replog.client.admin import Admin
from replog.client.arguments import Partition
from replog.client.blocking import Blocking, BlockingDelivery, outcomes
from replog.client.consuming.consumer import Consumer, IsolationLevel
from replog.client.counts import Counts
from replog.client.descriptions import BrokerReplicas, ClusterDescription, ElectionResult, ElectionType, LogDirDescription, LogEnds, PartitionChanges, PartitionReassignment, TopicDescription
from replog.client.offsets import OffsetAndTimestamp
from replog.client.producing.deliveries import RecordMetadata
from replog.client.producing.producer import Partitioner, Producer
from replog.client.records import Headers, K, Record, V
from replog.common.acl import Acl, AclFilter
from replog.errors import ReplogError
from replog.metadata.values import StandingAudit
from replog.rpc.transport import Transport
from replog.rpc.transports import PathLike
from replog.topic import TopicPartition
from typing import Generic, Literal


class SyncProducer(Blocking[Producer[K, V]], Generic[K, V], of=Producer):
    def __init__(self, bootstrap: str | Sequence[str], *, acks: Literal['all', 1, 0]='all', enable_idempotence: bool | None=None, linger_ms: float=0, batch_size: int=262144, compression: str='none', partitioner: Partitioner | None=None, key_serializer: Callable[[K], bytes] | None=None, value_serializer: Callable[[V], bytes] | None=None, max_request_bytes: int=1 << 20, buffer_memory: int=32 << 20, max_block_ms: int=60000, delivery_timeout_ms: int=120000, request_timeout_ms: int=30000, ssl_truststore_location: PathLike=None, ssl_keystore_location: PathLike=None, transport: Transport | None=None) -> None:
        super().__init__(lambda: Producer(bootstrap, acks=acks, enable_idempotence=enable_idempotence, linger_ms=linger_ms, batch_size=batch_size, compression=compression, partitioner=partitioner, key_serializer=key_serializer, value_serializer=value_serializer, max_request_bytes=max_request_bytes, buffer_memory=buffer_memory, max_block_ms=max_block_ms, delivery_timeout_ms=delivery_timeout_ms, request_timeout_ms=request_timeout_ms, ssl_truststore_location=ssl_truststore_location, ssl_keystore_location=ssl_keystore_location, transport=transport))
    def send(self, topic: str, value: V | None, key: K | None=None, partition: int | None=None, timestamp_ms: int | None=None, headers: Headers=()) -> RecordMetadata:
        return self._run(lambda: self._client.send_and_wait(topic, value, key, partition, timestamp_ms, headers))
    def send_nowait(self, topic: str, value: V | None, key: K | None=None, partition: int | None=None, timestamp_ms: int | None=None, headers: Headers=()) -> BlockingDelivery:
        return BlockingDelivery(self, self._run(lambda: self._client.send(topic, value, key, partition, timestamp_ms, headers)))
    def send_many(self, topic: str, values: Iterable[V | None], key: K | None=None, partition: int | None=None) -> list[RecordMetadata]:
        return self._run(lambda: outcomes(self._client.send_many(topic, values, key, partition)))
    def send_many_nowait(self, topic: str, values: Iterable[V | None], key: K | None=None, partition: int | None=None) -> list[BlockingDelivery]:
        return [BlockingDelivery(self, sent) for sent in self._run(lambda: self._client.send_many(topic, values, key, partition))]
    def flush(self) -> None:
        self._run(lambda: self._client.flush())
    def close(self, timeout_s: float | None=None) -> None:
        self._close(lambda: self._client.close(timeout_s))
    def metrics(self) -> Counts:
        return self._call(lambda: self._client.metrics())


class SyncConsumer(Blocking[Consumer[K, V]], Generic[K, V], of=Consumer):
    def __init__(self, bootstrap: str | Sequence[str], *, isolation_level: IsolationLevel='read_uncommitted', fetch_min_bytes: int=1, fetch_max_bytes: int=1 << 20, fetch_max_wait_ms: int=500, max_partition_fetch_bytes: int=1 << 20, auto_offset_reset: Literal['earliest', 'latest', 'error']='latest', client_rack: str='', key_deserializer: Callable[[bytes], K] | None=None, value_deserializer: Callable[[bytes], V] | None=None, request_timeout_ms: int=30000, ssl_truststore_location: PathLike=None, ssl_keystore_location: PathLike=None, transport: Transport | None=None) -> None:
        super().__init__(lambda: Consumer(bootstrap, isolation_level=isolation_level, fetch_min_bytes=fetch_min_bytes, fetch_max_bytes=fetch_max_bytes, fetch_max_wait_ms=fetch_max_wait_ms, max_partition_fetch_bytes=max_partition_fetch_bytes, auto_offset_reset=auto_offset_reset, client_rack=client_rack, key_deserializer=key_deserializer, value_deserializer=value_deserializer, request_timeout_ms=request_timeout_ms, ssl_truststore_location=ssl_truststore_location, ssl_keystore_location=ssl_keystore_location, transport=transport))
    def assign(self, partitions: Iterable[Partition]) -> None:
        self._call(lambda: self._client.assign(partitions))
    def partitions_for(self, topic: str, timeout_s: float=30.0) -> list[int]:
        return self._run(lambda: self._client.partitions_for(topic, timeout_s))
    def topic_id(self, topic: str) -> bytes | None:
        return self._call(lambda: self._client.topic_id(topic))
    @property
    def assignment(self) -> list[TopicPartition]:
        return self._call(lambda: self._client.assignment)
    def seek(self, partition: Partition, offset: int, topic_id: bytes | None=None) -> None:
        self._call(lambda: self._client.seek(partition, offset, topic_id))
    def seek_to_beginning(self, *partitions: Partition) -> None:
        self._call(lambda: self._client.seek_to_beginning(*partitions))
    def seek_to_end(self, *partitions: Partition) -> None:
        self._call(lambda: self._client.seek_to_end(*partitions))
    def pause(self, *partitions: Partition) -> None:
        self._call(lambda: self._client.pause(*partitions))
    def resume(self, *partitions: Partition) -> None:
        self._call(lambda: self._client.resume(*partitions))
    def position(self, partition: Partition, timeout_s: float=30.0) -> int:
        return self._run(lambda: self._client.position(partition, timeout_s))
    def beginning_offsets(self, partitions: Iterable[Partition], timeout_s: float=30.0) -> dict[TopicPartition, int]:
        return self._run(lambda: self._client.beginning_offsets(partitions, timeout_s))
    def end_offsets(self, partitions: Iterable[Partition], timeout_s: float=30.0) -> dict[TopicPartition, int]:
        return self._run(lambda: self._client.end_offsets(partitions, timeout_s))
    def offsets_for_times(self, timestamps: Mapping[TopicPartition, int], timeout_s: float=30.0) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._run(lambda: self._client.offsets_for_times(timestamps, timeout_s))
    def fetch(self, timeout_s: float=1.0, max_records: int | None=None) -> list[Record[K, V]]:
        return self._run(lambda: self._client.fetch(timeout_s, max_records), self._client.give_back)
    def fetch_many(self, timeout_s: float=1.0, max_records: int=500) -> list[Record[K, V]]:
        return self._run(lambda: self._client.fetch_many(timeout_s, max_records), self._client.give_back)
    def give_back(self, records: Sequence[Record[K, V]]) -> None:
        self._call(lambda: self._client.give_back(records))
    def metrics(self) -> Counts:
        return self._call(lambda: self._client.metrics())
    def __iter__(self) -> Iterator[Record[K, V]]:
        return self._forever(lambda: self.fetch(max_records=1))
    def close(self) -> None:
        self._close(lambda: self._client.close())


class SyncAdmin(Blocking[Admin], of=Admin):
    def __init__(self, bootstrap: str | Sequence[str], *, timeout_ms: int=30000, to_controller: bool=False, ssl_truststore_location: PathLike=None, ssl_keystore_location: PathLike=None, transport: Transport | None=None) -> None:
        super().__init__(lambda: Admin(bootstrap, timeout_ms=timeout_ms, to_controller=to_controller, ssl_truststore_location=ssl_truststore_location, ssl_keystore_location=ssl_keystore_location, transport=transport))
    def close(self) -> None:
        self._close(lambda: self._client.close())
    def create_topic(self, topic: str, partitions: int=0, replication_factor: int=0, configs: Mapping[str, str] | None=None, assignment: Sequence[Sequence[int]]=(), validate_only: bool=False) -> None:
        self._run(lambda: self._client.create_topic(topic, partitions, replication_factor, configs, assignment, validate_only))
    def create_partitions(self, topic: str, total: int, assignment: Sequence[Sequence[int]]=(), validate_only: bool=False) -> None:
        self._run(lambda: self._client.create_partitions(topic, total, assignment, validate_only))
    def delete_topic(self, topic: str) -> None:
        self._run(lambda: self._client.delete_topic(topic))
    def alter_topic_configs(self, topic: str, configs: Mapping[str, str], delete: Sequence[str]=(), validate_only: bool=False) -> dict[str, str]:
        return self._run(lambda: self._client.alter_topic_configs(topic, configs, delete, validate_only))
    def list_topics(self) -> list[str]:
        return self._run(lambda: self._client.list_topics())
    def describe_topic(self, topic: str) -> TopicDescription:
        return self._run(lambda: self._client.describe_topic(topic))
    def describe_topics(self) -> list[TopicDescription]:
        return self._run(lambda: self._client.describe_topics())
    def list_offsets(self, timestamps: Mapping[TopicPartition, int], read_committed: bool=False) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._run(lambda: self._client.list_offsets(timestamps, read_committed))
    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return self._run(lambda: self._client.delete_records(offsets))
    def elect_leaders(self, kind: ElectionType, partitions: Sequence[TopicPartition] | None=None) -> dict[TopicPartition, ElectionResult]:
        return self._run(lambda: self._client.elect_leaders(kind, partitions))
    def describe_log_ends(self, partitions: Sequence[TopicPartition]=()) -> dict[TopicPartition, LogEnds]:
        return self._run(lambda: self._client.describe_log_ends(partitions))
    def alter_partition_reassignments(self, targets: Mapping[TopicPartition, Sequence[int] | None], throttle: int=0) -> dict[TopicPartition, ReplogError | None]:
        return self._run(lambda: self._client.alter_partition_reassignments(targets, throttle))
    def list_partition_reassignments(self, partitions: Sequence[TopicPartition]=()) -> dict[TopicPartition, PartitionReassignment]:
        return self._run(lambda: self._client.list_partition_reassignments(partitions))
    def describe_partition_changes(self, after_version: int=0) -> PartitionChanges:
        return self._run(lambda: self._client.describe_partition_changes(after_version))
    def describe_cluster(self) -> ClusterDescription:
        return self._run(lambda: self._client.describe_cluster())
    def alter_broker_configs(self, broker_id: int, configs: Mapping[str, str], delete: Sequence[str]=(), validate_only: bool=False) -> dict[str, str]:
        return self._run(lambda: self._client.alter_broker_configs(broker_id, configs, delete, validate_only))
    def report_audit(self, audit: StandingAudit) -> None:
        self._run(lambda: self._client.report_audit(audit))
    def describe_audit(self) -> StandingAudit | None:
        return self._run(lambda: self._client.describe_audit())
    def unregister_broker(self, broker_id: int) -> None:
        self._run(lambda: self._client.unregister_broker(broker_id))
    def alter_replica_log_dirs(self, broker_id: int, moves: Mapping[TopicPartition, str]) -> dict[TopicPartition, ReplogError | None]:
        return self._run(lambda: self._client.alter_replica_log_dirs(broker_id, moves))
    def describe_log_dirs(self, broker_ids: Sequence[int], topics: Sequence[str]=()) -> dict[int, tuple[LogDirDescription, ...]]:
        return self._run(lambda: self._client.describe_log_dirs(broker_ids, topics))
    def describe_replicas(self, broker_id: int, topic: str='') -> BrokerReplicas:
        return self._run(lambda: self._client.describe_replicas(broker_id, topic))
    def create_acls(self, acls: Iterable[Acl]) -> int:
        return self._run(lambda: self._client.create_acls(acls))
    def delete_acls(self, filters: Iterable[AclFilter]) -> int:
        return self._run(lambda: self._client.delete_acls(filters))
    def describe_acls(self, wanted: AclFilter=AclFilter()) -> list[Acl]:
        return self._run(lambda: self._client.describe_acls(wanted))
    def alter_client_quotas(self, user: str, configs: Mapping[str, str], delete: Sequence[str]=(), validate_only: bool=False) -> dict[str, str]:
        return self._run(lambda: self._client.alter_client_quotas(user, configs, delete, validate_only))
    def describe_client_quotas(self) -> dict[str, dict[str, str]]:
        return self._run(lambda: self._client.describe_client_quotas())
