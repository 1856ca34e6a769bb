"""The settings of a topic, under Kafka's names."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from replog.config.properties import MAX_INT, MAX_LONG
from replog.config.settings import Settings

MAX_REPLICA_LIST_LENGTH = 32_767  # characters: Kafka's longest setting
_REPLICAS = re.compile(r"\*|([0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)?")


def _replica_list(value: str) -> str:
    """Return the list with each replica once, its numbers without leading zeros. Raises ValueError."""
    if len(value) > MAX_REPLICA_LIST_LENGTH:
        raise ValueError(f"longer than {MAX_REPLICA_LIST_LENGTH} characters; use * for all replicas")
    if not _REPLICAS.fullmatch(value):
        raise ValueError("neither * nor a list like 0:101,1:102 of partition:broker")
    if value in ("*", ""):
        return value
    replicas = [[int(number) for number in entry.split(":")] for entry in value.split(",")]
    if any(number > MAX_INT for replica in replicas for number in replica):
        raise ValueError(f"a partition or a broker is greater than {MAX_INT}")
    return ",".join(dict.fromkeys(f"{partition}:{broker}" for partition, broker in replicas))


def _policy(value: object) -> object:
    """Accept any order, as Kafka does."""
    return ",".join(sorted({word.strip() for word in value.split(",")})) if isinstance(value, str) else value


def _gzip_level(value: int) -> int:
    if value == 0:
        raise ValueError("give 1 to 9, or -1 for gzip's own default")
    return value


def _no_tiers(value: bool) -> bool:
    if value:
        raise ValueError("there is no tiered storage here; give false, or delete the setting")
    return value


Milliseconds = Annotated[int, Field(ge=0, le=MAX_LONG)]
ByteCount = Annotated[int, Field(ge=0, le=MAX_INT)]
RecoveryStrategy = Literal["NONE", "BALANCED", "AGGRESSIVE"]
ReplicaList = Annotated[str, AfterValidator(_replica_list)]  # `*`, or partition:broker, separated by commas


class TopicConfig(Settings):
    """One topic's settings: Kafka's names and defaults, with safe replication defaults (divergence 9)."""

    when_unreadable: ClassVar = {  # otherwise a setting of a later release could make this one delete records
        "cleanup.policy": {"cleanup.policy": "compact", "min.compaction.lag.ms": str(MAX_LONG)},
        **{name: {name: "-1"} for name in ("retention.ms", "retention.bytes")},
        **{name: {name: str(MAX_LONG)} for name in ("min.compaction.lag.ms", "delete.retention.ms")},
    }

    segment_bytes: Annotated[int, Field(ge=1024, le=MAX_INT)] = 1 << 30
    segment_ms: Annotated[int, Field(ge=1, le=MAX_LONG)] = 604_800_000
    segment_index_bytes: Annotated[int, Field(ge=24, le=MAX_INT)] = 10 << 20
    index_interval_bytes: ByteCount = 4096
    max_message_bytes: ByteCount = 1_048_588
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    message_timestamp_before_max_ms: Milliseconds = MAX_LONG
    message_timestamp_after_max_ms: Milliseconds = 3_600_000
    retention_ms: Annotated[int, Field(ge=-1, le=MAX_LONG)] = 604_800_000
    retention_bytes: Annotated[int, Field(ge=-1, le=MAX_LONG)] = -1
    cleanup_policy: Annotated[Literal["delete", "compact", "compact,delete"], BeforeValidator(_policy)] = "delete"
    min_cleanable_dirty_ratio: Annotated[float, Field(ge=0, le=1)] = 0.5
    min_compaction_lag_ms: Milliseconds = 0
    max_compaction_lag_ms: Annotated[int, Field(ge=1, le=MAX_LONG)] = MAX_LONG
    delete_retention_ms: Milliseconds = 86_400_000
    file_delete_delay_ms: Milliseconds = 60_000
    flush_messages: Annotated[int, Field(ge=1, le=MAX_LONG)] = MAX_LONG
    flush_ms: Milliseconds = MAX_LONG
    min_insync_replicas: Annotated[int, Field(ge=1, le=MAX_INT)] = 2
    unclean_leader_election_enable: bool = False  # true is AGGRESSIVE below
    unclean_recovery_strategy: RecoveryStrategy = "BALANCED"  # used where nobody alive is known to be complete (CT-31)
    leader_replication_throttled_replicas: ReplicaList = ""  # leaders that hold followers back (FE-23)
    follower_replication_throttled_replicas: ReplicaList = ""  # followers that hold themselves back (FT-6)
    # Kafka's other settings: kept and shown, without effect
    compression_type: Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"] = "producer"
    compression_gzip_level: Annotated[int, Field(ge=-1, le=9), AfterValidator(_gzip_level)] = -1
    compression_lz4_level: Annotated[int, Field(ge=1, le=17)] = 9
    compression_zstd_level: Annotated[int, Field(ge=-131_072, le=22)] = 3
    preallocate: bool = False
    segment_jitter_ms: Milliseconds = 0
    local_retention_ms: Annotated[int, Field(ge=-2, le=MAX_LONG)] = -2
    local_retention_bytes: Annotated[int, Field(ge=-2, le=MAX_LONG)] = -2
    remote_storage_enable: Annotated[bool, AfterValidator(_no_tiers)] = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False

    @property
    def compacted(self) -> bool:
        """True if the cleaner may leave holes in the offsets (CL-8); replicas must then take them from each other."""
        return "compact" in self.cleanup_policy

    @property
    def deletes_by_retention(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """The age at which a segment rolls: soon enough for the cleaner, which leaves the active one alone (SG-6)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacted else self.segment_ms


def topic_config(topic: str, configs: Mapping[str, str]) -> TopicConfig:
    """Return a topic's settings as far as they can be read; all its partitions share them."""
    return _topic_config(topic, frozenset(configs.items()))


@lru_cache(maxsize=1000)
def _topic_config(_topic: str, configs: frozenset[tuple[str, str]]) -> TopicConfig:
    return TopicConfig.readable(TopicConfig.tidied(dict(configs)))
