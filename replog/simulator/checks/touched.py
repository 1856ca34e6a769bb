"""Notes which replicas a step touches, as it assigns the fields that the checks compare."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol

from follower.partition_follower import PartitionFollower
from leader.partition_leader import PartitionLeader
from replog.log.epochs import LeaderEpochCache
from replog.log.log import Log
from replog.log.segment import Segment
from replog.log.segments import Segments
from replog.server.broker.replicas.hosted_replicas import HostedPartition


class Watched(Protocol):
    WATCHED: ClassVar[frozenset[str]]


def _of_log(owner: Any) -> Path | None:
    log = getattr(owner, "log", None)  # None: the owner is being made, and its assignment elsewhere is noted
    return log.directory if log is not None else None


DIRECTORIES: dict[type[Watched], Callable[[Any], Path | None]] = {
    HostedPartition: _of_log,
    PartitionLeader: _of_log,
    PartitionFollower: _of_log,
    Log: lambda log: log.directory,
    Segments: lambda segments: segments.directory,
    Segment: lambda segment: segment.path.parent,
    LeaderEpochCache: lambda cache: cache.path.parent,
}


@contextmanager
def touched() -> Iterator[dict[Path, None]]:
    """Yield a dictionary that collects the directories of the replicas that are touched."""
    directories: dict[Path, None] = {}
    for kind, directory_of in DIRECTORIES.items():
        kind.__setattr__ = _assigning(kind.WATCHED, directory_of, directories)  # type: ignore[method-assign]
    try:
        yield directories
    finally:
        for kind in DIRECTORIES:
            del kind.__setattr__


def _assigning(
    names: frozenset[str], directory_of: Callable[[Any], Path | None], directories: dict[Path, None]
) -> Callable[[Any, str, Any], None]:
    assign = object.__setattr__

    def assigned(owner: Any, name: str, value: Any) -> None:
        assign(owner, name, value)
        if name in names and (directory := directory_of(owner)) is not None:
            directories[directory] = None

    return assigned
