"""The settings of topics in a restored store: nothing is deleted before the operator says so. Pure.

What a copy says may be older than what counted last, and of a topic that is in no copy hardly anything is known.
Brokers would delete by it within minutes, and nobody can alter a setting before brokers run."""

from collections.abc import Iterable, Mapping

from replog.config import topic_config
from replog.controller.broker_events import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION
from replog.properties import MAX_LONG

CLEANUP_POLICY = "cleanup.policy"
UNKNOWN = {MIN_INSYNC_REPLICAS: "2"}  # as a new topic, it says so: brokers and controllers must go by the same number


def as_on_disk(configs: Mapping[str, str], *, compacted: bool) -> dict[str, str]:
    """The settings, of a topic that is compacted or not: one cannot become the other, as files have holes or not
    (CL-8)."""
    if topic_config("", configs).compacted == compacted:
        return dict(configs)
    others = {name: value for name, value in configs.items() if name != CLEANUP_POLICY}
    return others | {CLEANUP_POLICY: "compact"} if compacted else others


def holding_back(topic: str, configs: Mapping[str, str]) -> dict[str, str]:
    """What must be set beside `configs`, so that no record is deleted or cleaned away, or is lost because the first
    broker that comes is elected uncleanly."""
    config = topic_config(topic, configs)
    wanted: dict[str, str] = {}
    if config.deletes_by_retention:
        wanted |= {"retention.ms": "-1", "retention.bytes": "-1"}
    if config.compacted:
        wanted["min.compaction.lag.ms"] = str(MAX_LONG)
    wanted[UNCLEAN_LEADER_ELECTION] = "false"
    safe = topic_config(topic, {**configs, **wanted})
    fields = {name: name.replace(".", "_") for name in wanted}
    return {
        name: value for name, value in wanted.items() if getattr(safe, fields[name]) != getattr(config, fields[name])
    }


def alter_command(topic: str, configs: Mapping[str, str], held_back: Iterable[str]) -> str:
    """What gives a topic the settings back that were held back."""
    words = (f"--config {name}={configs[name]}" if name in configs else f"--delete-config {name}" for name in held_back)
    return f"replog topic alter --topic {topic} {' '.join(words)}"
