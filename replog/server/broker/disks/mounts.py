"""A check for log directories that are empty and should not be: perhaps a disk is not mounted."""

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from replog.errors import ErrorCode
from replog.log.directories.meta_properties import META_PROPERTIES
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
