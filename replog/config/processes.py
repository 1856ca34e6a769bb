"""The settings of brokers, controllers and clients, under Kafka's names."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from replog.common.acl import ANYBODY, is_principal
from replog.config.listeners import (
    Listener,
    check_address,
    check_reachable,
    listeners_of,
    named_addresses,
    protocol_map,
)
from replog.config.properties import MAX_BATCH_BYTES, MAX_INT, MAX_LONG
from replog.config.settings import Settings
from replog.config.topic import ByteCount, Milliseconds, RecoveryStrategy
from replog.topic import MAX_PARTITIONS

_PREFIX = re.compile(r"/([A-Za-z0-9_.-]{1,64}/){1,8}")
MAX_LOG_DIRS = 100
MAX_CONTROLLERS = 20  # addresses of controllers, or of etcds


def _split_paths(value: Any) -> Any:
    """Split `/a,/b` into directories."""
    return [_named(part.strip()) for part in str(value).split(",")] if isinstance(value, str | Path) else value


def _apart(directories: tuple[Path, ...]) -> tuple[Path, ...]:
    """Raise ValueError if one directory is, or lies in, another one."""
    places = [directory.resolve() for directory in directories]
    for slot, place in enumerate(places):
        for other in (*places[:slot], *places[slot + 1 :]):
            if place.is_relative_to(other):
                raise ValueError(f"{place} {'is there twice' if place == other else f'lies in {other}'}")
    return directories


def _address(value: str) -> str:
    check_address(value)
    return value


def _named(value: object) -> object:
    if value == "":
        raise ValueError("a directory has no name")
    return value


def _split_principals(value: Any) -> Any:
    return [part.strip() for part in value.split(";") if part.strip()] if isinstance(value, str) else value


def _principal(value: str) -> str:
    if not is_principal(value) or value == ANYBODY:
        raise ValueError(f"{value!r} is no principal such as User:admin")
    return value


Principals = Annotated[
    tuple[Annotated[str, AfterValidator(_principal)], ...],
    BeforeValidator(_split_principals),
    PlainSerializer(";".join, when_used="json"),
]


def _addresses(value: str) -> str:
    """Raises ValueError for a wrong address, or too many."""
    parts = [part.strip() for part in value.split(",")]
    if len(parts) > MAX_CONTROLLERS:
        raise ValueError(f"{len(parts)} addresses; at most {MAX_CONTROLLERS}")
    return ",".join(map(_address, parts))


def _with(parse: Callable[[str], object]) -> Callable[[str], str]:
    """Return a check that keeps the text, and lets `parse` refuse it if there is any."""

    def checked(value: str) -> str:
        if value:
            parse(value)
        return value

    return checked


def _prefix(value: str) -> str:
    if not _PREFIX.fullmatch(value):
        raise ValueError("not / before and after names of letters, digits, '_', '.' and '-'; like /replog/orders/")
    return value


Address = Annotated[str, AfterValidator(_address)]
ListenerList = Annotated[str, AfterValidator(_with(named_addresses))]  # NAME://host:port,…
ProtocolMap = Annotated[str, AfterValidator(_with(protocol_map))]  # NAME:PROTOCOL,…
Addresses = Annotated[str, AfterValidator(_addresses)]  # separated by commas
LogDirs = Annotated[
    tuple[Path, ...],
    BeforeValidator(_split_paths),
    Field(min_length=1, max_length=MAX_LOG_DIRS),
    AfterValidator(_apart),
    PlainSerializer(lambda directories: ",".join(map(str, directories)), when_used="json"),
]
OptionalPath = Annotated[Path | None, BeforeValidator(lambda value: value or None)]


RpcTransport = Literal["", "grpcio", "h2"]  # empty: the default of `replog.rpc.transports`


class ClientSecurity(Settings):
    """Settings of connections to others; PEM files, as in Kafka with `ssl.keystore.type=PEM`."""

    security_protocol: Literal["PLAINTEXT", "SSL"] = "PLAINTEXT"
    ssl_keystore_type: Literal["PEM"] = "PEM"
    ssl_keystore_location: OptionalPath = None  # a private key and its certificates, in one file
    ssl_truststore_type: Literal["PEM"] = "PEM"
    ssl_truststore_location: OptionalPath = None  # the authorities whose certificates are believed


class ServerConfig(ClientSecurity):
    """Settings that brokers and controllers share. SIGHUP has those of the log read again."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: Literal["", "console", "json"] = ""  # console on a terminal, else json
    log_file: OptionalPath = None  # instead of stderr; renamed when it is large, and the oldest of them removed
    metrics_listener: Address | Literal[""] = ""  # host:port of /metrics; none when empty
    ssl_client_auth: Literal["required", "requested", "none"] = "required"
    allow_plaintext: bool = False  # allows plaintext on a listener that other machines may reach
    authorizer_class_name: Literal["", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"] = ""  # none: all
    super_users: Principals = ()  # User:a;User:b, who may do everything
    allow_everyone_if_no_acl_found: bool = False  # grants access to resources that no ACL names
    max_connections_per_ip: Annotated[int, Field(ge=1, le=MAX_INT)] = MAX_INT
    connections_max_idle_ms: Annotated[int, Field(ge=1000, le=MAX_LONG)] = 600_000


DEFAULT_USER = "<default>"  # Kafka's word for each user without a quota of its own


class ClientQuota(Settings):
    """The bytes per second that a user may exchange with each broker; Kafka's names, which have no dots."""

    model_config = ConfigDict(alias_generator=None)

    producer_byte_rate: Annotated[int, Field(ge=1, le=MAX_LONG, alias="producer_byte_rate")] = MAX_LONG
    consumer_byte_rate: Annotated[int, Field(ge=1, le=MAX_LONG, alias="consumer_byte_rate")] = MAX_LONG


class DynamicBrokerConfig(Settings):
    """Settings that may change while a broker runs: how fast it copies throttled replicas, in bytes per second."""

    leader_replication_throttled_rate: Annotated[int, Field(ge=0, le=MAX_LONG)] = MAX_LONG
    follower_replication_throttled_rate: Annotated[int, Field(ge=0, le=MAX_LONG)] = MAX_LONG


class AlterableBrokerConfig(DynamicBrokerConfig):
    """All settings of a broker that may be altered: these rates, and whether the controller gives it new replicas."""

    cordoned_log_dirs: Literal["", "*"] = ""  # *: it gets none (KIP-1066, which also has single directories)


class BrokerConfig(DynamicBrokerConfig, ServerConfig):
    node_id: Annotated[int, Field(ge=0, le=MAX_INT)]
    listeners: ListenerList = "127.0.0.1:9092"  # or several: NAME://host:port,NAME://host:port
    rpc_transport: RpcTransport = ""
    advertised_listeners: ListenerList = ""  # others connect to these; the bound listeners when empty
    listener_security_protocol_map: ProtocolMap = ""  # names that are no protocol; others have security.protocol
    listener_protocols: Literal["grpc,kafka", "grpc", "kafka"] = "grpc,kafka"  # clients speak them; brokers grpc alone
    inter_broker_listener_name: str = ""  # replication uses it; else the one called as security.protocol
    inspection_listener_name: str = ""  # the only listener that serves audits; each one when empty
    controller_listener: Addresses = "127.0.0.1:9093"  # every controller's; the broker finds the one that decides
    log_dirs: LogDirs  # one, or several with commas between them: a disk each
    broker_rack: str = ""
    broker_heartbeat_interval_ms: Annotated[int, Field(ge=50, le=MAX_INT)] = 2000
    initial_broker_registration_timeout_ms: Milliseconds = 60_000
    replica_lag_time_max_ms: Annotated[int, Field(ge=100, le=MAX_INT)] = 30_000
    replica_fetch_max_bytes: ByteCount = 1 << 20
    replica_fetch_response_max_bytes: ByteCount = 1 << 20  # one message of at most about 1 MiB (measured best)
    replica_fetch_wait_max_ms: Annotated[int, Field(ge=1, le=MAX_INT)] = 500
    replica_fetch_min_bytes: ByteCount = 1
    replica_fetch_backoff_ms: Annotated[int, Field(ge=1, le=MAX_INT)] = 1000
    replica_selector_class: Literal["", "org.apache.kafka.common.replica.RackAwareReplicaSelector"] = ""  # none: leader
    replica_socket_timeout_ms: Annotated[int, Field(ge=100, le=MAX_INT)] = 30_000
    replication_quota_window_num: Annotated[int, Field(ge=1, le=MAX_INT)] = 11
    replication_quota_window_size_seconds: Annotated[int, Field(ge=1, le=MAX_INT)] = 1
    replica_high_watermark_checkpoint_interval_ms: Annotated[int, Field(ge=10, le=MAX_INT)] = 5000
    log_flush_offset_checkpoint_interval_ms: Annotated[int, Field(ge=10, le=MAX_INT)] = 60_000
    log_retention_check_interval_ms: Annotated[int, Field(ge=10, le=MAX_INT)] = 300_000
    log_cleaner_enable: bool = True
    log_cleaner_backoff_ms: Annotated[int, Field(ge=10, le=MAX_INT)] = 15_000
    log_dirs_require_known: bool = False
    log_cleaner_dedupe_buffer_size: Annotated[int, Field(ge=1 << 16, le=MAX_INT)] = 128 << 20
    producer_id_expiration_ms: Annotated[int, Field(ge=1, le=MAX_INT)] = 86_400_000
    producer_id_expiration_check_interval_ms: Annotated[int, Field(ge=1, le=MAX_INT)] = 600_000
    fetch_max_bytes: Annotated[int, Field(ge=1, le=MAX_BATCH_BYTES)] = 1 << 20  # one message (measured best)
    request_timeout_ms: Annotated[int, Field(ge=100, le=MAX_INT)] = 30_000
    auto_create_topics_enable: bool = False  # clients of Kafka's protocol get an unknown topic made
    queued_max_request_bytes: Annotated[int, Field(ge=1 << 20, le=MAX_INT)] = 64 << 20  # all produces that wait
    queued_max_response_bytes: Annotated[int, Field(ge=1 << 20, le=MAX_INT)] = 64 << 20  # all untaken answers

    @property
    def bound(self) -> tuple[Listener, ...]:
        """The broker's listeners; the first is the one between brokers."""
        named = listeners_of(
            self.listeners, self.advertised_listeners, self.listener_security_protocol_map, self.security_protocol
        )
        between = self._between_brokers(named)
        return (between, *(listener for listener in named if listener is not between))

    def _between_brokers(self, named: tuple[Listener, ...]) -> Listener:
        if len(named) == 1 and not self.inter_broker_listener_name:
            return named[0]
        name = self.inter_broker_listener_name.upper() or self.security_protocol
        for listener in named:
            if listener.name == name:
                return listener
        raise ValueError(f"inter.broker.listener.name={name} is none of listeners={self.listeners}; name one of them")

    @model_validator(mode="after")
    def _listeners_fit(self) -> Self:
        between, *others = self.bound
        if between.protocol != self.security_protocol:
            raise ValueError(
                f"listener {between.name} is for brokers and speaks {between.protocol}, and security.protocol="
                f"{self.security_protocol} is what brokers speak to each other; make them the same"
            )
        names = [listener.name for listener in (between, *others)]
        if self.inspection_listener_name and self.inspection_listener_name.upper() not in names:
            raise ValueError(
                f"inspection.listener.name={self.inspection_listener_name} is none of listeners={self.listeners}"
            )
        return self

    @model_validator(mode="after")
    def _waits_fit(self) -> Self:
        """Refuse a fetch wait longer than the lag that counts: such a follower would never be in sync."""
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            raise ValueError(
                f"replica.fetch.wait.max.ms={self.replica_fetch_wait_max_ms} is more than replica.lag.time.max.ms="
                f"{self.replica_lag_time_max_ms}, after which a follower is out of sync; set it to that or less"
            )
        return self

    def dynamic(self, altered: Mapping[str, str]) -> DynamicBrokerConfig:
        """Return the settings that hold now: those `altered` since the start, else those it was started with."""
        started_with = self.model_dump(by_alias=True, include=set(DynamicBrokerConfig.model_fields))
        return AlterableBrokerConfig.readable(
            started_with | {name: altered[name] for name in altered.keys() - AlterableBrokerConfig.unreadable(altered)}
        )


class ControllerConfig(ServerConfig):
    listeners: Address = "127.0.0.1:9093"
    rpc_transport: RpcTransport = ""
    metadata_store: Literal["sqlite", "etcd"] = "sqlite"
    metadata_log_dir: Annotated[Path, BeforeValidator(_named)] = Path()  # SQLite's
    metadata_etcd_endpoints: Addresses | Literal[""] = ""  # every member of one etcd cluster
    metadata_etcd_prefix: Annotated[str, AfterValidator(_prefix)] = "/replog/"  # no other cluster may use it
    metadata_etcd_ssl_keystore_location: OptionalPath = None  # the certificate's authority should be for etcd alone
    metadata_etcd_ssl_truststore_location: OptionalPath = None
    metadata_etcd_lease_seconds: Annotated[int, Field(ge=2, le=60)] = 5  # a lost controller is missed so long
    advertised_listeners: Address | Literal[""] = ""  # brokers find this controller here; its listener when empty
    broker_session_timeout_ms: Annotated[int, Field(ge=200, le=MAX_INT)] = 9000
    default_replication_factor: Annotated[int, Field(ge=1, le=MAX_INT)] = 3
    min_insync_replicas: Annotated[int, Field(ge=1, le=MAX_INT)] = 2
    num_partitions: Annotated[int, Field(ge=1, le=MAX_PARTITIONS)] = 1
    eligible_leader_replicas_enable: bool = True  # ISR-15; without it ISR-19
    auto_leader_rebalance_enable: bool = True  # CT-12
    leader_imbalance_check_interval_seconds: Annotated[int, Field(ge=1, le=MAX_INT)] = 300
    unclean_leader_election_enable: bool = False  # a topic's own setting counts first
    unclean_recovery_strategy: RecoveryStrategy = "BALANCED"  # a topic's own setting counts first
    unclean_leader_election_interval_ms: Annotated[int, Field(ge=10, le=MAX_INT)] = 1000

    @property
    def bound(self) -> Listener:
        return Listener("CONTROLLER", self.listeners, self.advertised_listeners, self.security_protocol)

    @model_validator(mode="after")
    def _names_its_store_and_itself(self) -> Self:
        wanted = "metadata_log_dir" if self.metadata_store == "sqlite" else "metadata_etcd_endpoints"
        if wanted not in self.model_fields_set:
            raise ValueError(f"{wanted.replace('_', '.')} is missing: it says where the metadata store is")
        if self.advertised_listeners:
            check_reachable(self.listeners, self.advertised_listeners)
        return self
