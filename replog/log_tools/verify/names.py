"""Checks the names of files: their places (FN-1, 1.1, 1.2), leftovers, and strays."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from replog.log.directories.identity import CLEAN_SHUTDOWN, META_PROPERTIES, METADATA_POSITION
from replog.log.directories.lock import LOCK
from replog.log.directories.partition_metadata import PARTITION_METADATA
from replog.log.files.names import LOG_SUFFIX, SNAPSHOT_SUFFIX, STRAY_SUFFIX
from replog.log.formats.checkpoint import LEADER_EPOCH_CHECKPOINT, OFFSET_CHECKPOINTS
from replog.log_tools.checker.findings import Finding, Kind
from replog.topic import FUTURE_SUFFIX, SET_ASIDE, parse_directory_name

LOG_DIRECTORY_FILES = frozenset(
    {*OFFSET_CHECKPOINTS, CLEAN_SHUTDOWN, META_PROPERTIES, METADATA_POSITION, LOCK, "bootstrap.checkpoint"}
)
REMOTE_INDEX_CACHE = "remote-log-index-cache"  # a directory of Kafka's tiered storage
PARTITION_FILES = frozenset({LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, "quorum-state"})
SEGMENT_FILE = re.compile(r"(?P<base>[0-9]{20})(?P<suffix>\.(log|index|timeindex|txnindex|digest|snapshot))")
_LEFTOVER = re.compile(r".+\.(deleted|cleaned|swap|tmp)")
METADATA_SNAPSHOT = re.compile(r"[0-9]{20}-[0-9]{10}\.checkpoint")  # Kafka's __cluster_metadata has these


def segment_bases(directory: Path) -> list[int]:
    """Return the base offsets of the segments, ascending. Raises OSError."""
    names = [SEGMENT_FILE.fullmatch(path.name) for path in directory.iterdir()]
    return sorted(int(name["base"]) for name in names if name is not None and name["suffix"] == LOG_SUFFIX)


def snapshot_files(directory: Path) -> list[tuple[int, Path]]:
    """Return offset and path of each producer snapshot, ascending. Raises OSError."""
    names = [(SEGMENT_FILE.fullmatch(path.name), path) for path in directory.iterdir()]
    return sorted((int(name["base"]), path) for name, path in names if name and name["suffix"] == SNAPSHOT_SUFFIX)


def check_partition_names(paths: Iterable[Path], bases: list[int]) -> Iterator[Finding]:
    """Check the files of a partition directory that has segments at `bases`."""
    for path in sorted(paths):
        name = SEGMENT_FILE.fullmatch(path.name)
        if name is not None:
            if int(name["base"]) not in bases and name["suffix"] != SNAPSHOT_SUFFIX:
                yield Kind.ORPHAN.at(path, f"no {name['base']}{LOG_SUFFIX}")
        elif _LEFTOVER.fullmatch(path.name):
            yield Kind.LEFTOVER.at(path, f"a {path.suffix} file")
        elif SEGMENT_FILE.fullmatch(path.name.removesuffix(STRAY_SUFFIX)):
            yield Kind.STRAY_SEGMENT.at(path, f"a {STRAY_SUFFIX} file")
        elif path.name not in PARTITION_FILES and not METADATA_SNAPSHOT.fullmatch(path.name):
            yield Kind.STRAY.at(path, "not a file of a partition")


def check_log_directory_names(paths: Iterable[Path]) -> Iterator[Finding]:
    """Check the entries of a log directory that are not partitions."""
    for path in sorted(paths):
        if SET_ASIDE.fullmatch(path.name) and path.is_dir():
            yield Kind.SET_ASIDE.at(path, f"a -{path.name.rpartition('-')[2]} directory")
        elif _LEFTOVER.fullmatch(path.name):
            yield Kind.LEFTOVER.at(path, f"a {path.suffix} file")
        elif path.is_dir():
            if not is_partition_name(path.name) and path.name != REMOTE_INDEX_CACHE:
                yield Kind.STRAY_DIRECTORY.at(path, "a directory that is not <topic>-<partition>")
        elif path.name not in LOG_DIRECTORY_FILES:
            yield Kind.STRAY.at(path, "not a file of a log directory")


def replica_name(name: str) -> str:
    """Return the name that an unfinished copy's directory will get; others as they are."""
    set_aside = SET_ASIDE.fullmatch(name)
    return set_aside["replica"] if set_aside is not None and set_aside["suffix"] == FUTURE_SUFFIX else name


def is_partition_name(name: str) -> bool:
    try:
        parse_directory_name(name)
    except ValueError:
        return False
    return True
