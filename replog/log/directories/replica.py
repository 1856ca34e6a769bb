"""Opens a replica's log from its directory, and finds its topic's id."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from replog.config.topic import TopicConfig
from replog.log.directories.partition_metadata import (
    PARTITION_METADATA,
    DamagedTopicId,
    read_topic_id,
    replace_topic_id,
)
from replog.log.errors import LogStorageError, storage_errors
from replog.log.files.opening import has_records
from replog.log.log import Log


class Offsets(NamedTuple):
    """The offsets of a replica in the checkpoints."""

    recovery_point: int = 0
    log_start: int = 0
    high_watermark: int = 0


class Placed(NamedTuple):
    """The topic to which a replica of this name certainly belongs."""

    topic_id: bytes
    leader_epoch: int  # the partition's: no record has a higher one


def open_replica(
    path: Path,
    config: TopicConfig,
    offsets: Offsets,
    *,
    clean: bool,
    cleaned: bool,
    placed: Callable[[], Placed | None],
    report: Callable[[str], None],
) -> tuple[Log, bytes] | None:
    """Open the log, and return it and the topic's id; None for a creation that a crash interrupted.

    A `partition.metadata` that is lost or blank is written again if the topic is certainly the one that is `placed`
    (D57). Raises ReplogError."""
    damage: DamagedTopicId | None = None
    with storage_errors(path):
        try:
            topic_id = read_topic_id(path)
        except DamagedTopicId as error:
            topic_id, damage = None, error
        if topic_id is None and not has_records(path):
            return None
    lost = placed() if topic_id is None and (damage is None or damage.blank) else None
    if topic_id is None and lost is None:
        raise damage or LogStorageError(
            f"{path} has records and no {PARTITION_METADATA}; see replog log set-topic-id --help", path
        )
    log = Log.open(
        path,
        config,
        clean=clean,
        cleaned=cleaned,
        recovery_point=offsets.recovery_point,
        log_start_offset=offsets.log_start,
        high_watermark=offsets.high_watermark,
        on_progress=report,
    )
    if lost is None:
        assert topic_id is not None
        return log, topic_id
    newest = log.epochs.latest_epoch or 0
    try:
        if newest > lost.leader_epoch:
            raise LogStorageError(
                f"{path} has no topic id, and records of leader epoch {newest}: a newer topic's", path
            )
        replace_topic_id(path, lost.topic_id)
    except LogStorageError:
        log.abandon()
        raise
    report(f"{path / PARTITION_METADATA} was lost, and is written again")
    return log, lost.topic_id
