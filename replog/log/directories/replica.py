"""Opens a replica's log from its directory, and finds its topic's id."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from replog.config.topic import TopicConfig
from replog.log.directories.partition_metadata import PARTITION_METADATA, DamagedTopicId, read_topic_id, write_topic_id
from replog.log.errors import LogStorageError, storage_errors
from replog.log.files.opening import has_records
from replog.log.log import Log
from replog.topic import FUTURE_SUFFIX


class Offsets(NamedTuple):
    """The offsets of a replica in the checkpoints."""

    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0


class OpenedLog(NamedTuple):
    """A replica's log, or one that will replace the log in another directory."""

    log: Log
    topic_id: bytes

    @property
    def id(self) -> str:
        """The 32 hex digits in the name of a future log's directory."""
        return self.log.directory.name.removesuffix(FUTURE_SUFFIX)[-32:]


class Placed(NamedTuple):
    """The topic to which a replica of this name certainly belongs."""

    topic_id: bytes
    leader_epoch: int  # the partition's: no record has a higher one


def open_replica(
    path: Path,
    config: TopicConfig,
    offsets: Offsets,
    clean: bool,
    cleaned: bool,
    placed: Callable[[], Placed | None],
    report: Callable[[str], None],
) -> OpenedLog | None:
    """Open the log; None for a creation that a crash interrupted.

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
    log = Log.open(path, config, clean=clean, cleaned=cleaned, on_progress=report, **offsets._asdict())
    if lost is None:
        assert topic_id is not None
        return OpenedLog(log, topic_id)
    newest = log.epochs.latest_epoch or 0
    try:
        if newest > lost.leader_epoch:
            raise LogStorageError(
                f"{path} has no topic id, and records of leader epoch {newest}: a newer topic's", path
            )
        write_topic_id(path, lost.topic_id)
    except LogStorageError:
        log.abandon()
        raise
    report(f"{path / PARTITION_METADATA} was lost, and is written again")
    return OpenedLog(log, lost.topic_id)
