"""The settings of topics in a restored store: nothing is deleted before the operator says so. Pure.

The settings of a copy may be old, and those of a topic that is in no copy are not known. Otherwise brokers would delete
records by them within minutes, and nobody can alter a setting before brokers run."""

from collections.abc import Iterable, Mapping

from replog.config.properties import MAX_LONG
from replog.config.topic import topic_config
from replog.controller.broker_events import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION

CLEANUP_POLICY = "cleanup.policy"
UNKNOWN = {MIN_INSYNC_REPLICAS: "2"}  # stored, as a new topic's: brokers and controllers must go by the same number


def as_on_disk(configs: Mapping[str, str], *, compacted: bool) -> dict[str, str]:
    """Return the settings with a cleanup.policy that fits the files: those of a compacted topic have holes (CL-8)."""
    if topic_config("", configs).compacted == compacted:
        return dict(configs)
    others = {name: value for name, value in configs.items() if name != CLEANUP_POLICY}
    return others | {CLEANUP_POLICY: "compact"} if compacted else others


def holding_back(topic: str, configs: Mapping[str, str]) -> dict[str, str]:
    """Return the settings beside `configs` without which records would be deleted or cleaned away, or lost because the
    first broker that comes is elected uncleanly."""
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
    """Return the command that gives a topic back the settings that were held back."""
    words = (f"--config {name}={configs[name]}" if name in configs else f"--delete-config {name}" for name in held_back)
    return f"replog topic alter --topic {topic} {' '.join(words)}"
