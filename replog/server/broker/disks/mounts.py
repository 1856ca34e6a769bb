"""Log directories that are empty and should not be, and replicas that are not there: perhaps a disk is not mounted."""

import os
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from replog.errors import ErrorCode
from replog.log.directories.identity import META_PROPERTIES
from replog.log.directories.log_manager import LogManager
from replog.metadata.image import MetadataImage
from replog.topic import TopicPartition

log = structlog.get_logger()


def check_known(directories: Sequence[Path], placed: Collection[TopicPartition], *, required: bool) -> None:
    """Warn of each directory without an identity, if others have one or the cluster has `placed` replicas on this
    broker. Raises INVALID_CONFIG instead if identities are `required`."""
    names = dict.fromkeys(directories, frozenset[str]())
    for directory in directories:
        with suppress(FileNotFoundError):
            names[directory] = frozenset(os.listdir(directory))
    unknown = [directory for directory in directories if META_PROPERTIES not in names[directory]]
    if not placed and len(unknown) == len(directories):
        return
    present = {name for each in names.values() for name in each}
    missing = sum(tp.directory_name not in present for tp in placed)
    for directory in unknown:
        what = f"{directory} is empty, and the cluster places {missing} replicas on it; is its disk mounted?"
        if required:
            raise ErrorCode.INVALID_CONFIG.error(f"{what} To begin with an empty one, set log.dirs.require.known=false")
        log.warning("log directory is new", directory=str(directory), reason=what)


def missing_replicas(image: MetadataImage, broker_id: int, logs: LogManager) -> Mapping[bytes, Sequence[int]]:
    """Return, by topic id, the partitions that are placed on this broker and are in none of its log directories.

    Returns nothing while a log directory is offline, which may have them, and no replicas that cannot be loaded."""
    missing: defaultdict[bytes, list[int]] = defaultdict(list)
    for tp in () if logs.offline else image.index.on_broker(broker_id):
        topic_id = image.topics[tp.topic].topic_id
        if logs.topic_id(tp) != topic_id and tp not in logs.failed:
            missing[topic_id].append(tp.partition)
    if missing:
        log.warning(
            "replicas that the cluster places here are not on the disks; they will be copied",
            count=sum(map(len, missing.values())),
            log_dirs=[str(directory.path) for directory in logs.directories],
            remedy="if a disk is not mounted, stop this broker, mount it, and start it again",
        )
    return missing
