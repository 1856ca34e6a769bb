"""Which replicas a step has touched, noted as it assigns what the checks look at: they look at no others then."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster.broker.partition import HostedPartition
from follower.partition import PartitionFollower
from leader.partition import PartitionLeader
from replog.log.epoch_cache import LeaderEpochCache
from replog.log.log import Log
from replog.log.segment import Segment
from replog.log.segments import Segments


def _of_log(owner: Any) -> Path | None:
    log = getattr(owner, "log", None)  # None: it is being made, and is assigned to something that is looked at
    return log.directory if log is not None else None


WATCHED: dict[type, tuple[frozenset[str], Callable[[Any], Path | None]]] = {
    HostedPartition: (frozenset({"log", "leader", "follower"}), _of_log),
    PartitionLeader: (frozenset({"leader_epoch", "state"}), _of_log),
    PartitionFollower: (frozenset({"leader_epoch"}), _of_log),
    Log: (frozenset({"_high_watermark", "log_end_offset", "log_start_offset"}), lambda log: log.directory),
    Segments: (frozenset({"generation", "_swap"}), lambda segments: segments._directory),
    Segment: (frozenset({"next_offset"}), lambda segment: segment.path.parent),
    LeaderEpochCache: (frozenset({"_entries"}), lambda cache: cache.path.parent),
}


class Touched:
    """While it stands in for their assignments, `directories` has those of the replicas touched since `clear`."""

    def __init__(self) -> None:
        self.directories: dict[Path, None] = {}

    def clear(self) -> None:
        self.directories.clear()

    def __enter__(self) -> "Touched":
        for kind, (names, directory_of) in WATCHED.items():
            kind.__setattr__ = self._assigning(names, directory_of)  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        for kind in WATCHED:
            del kind.__setattr__

    def _assigning(
        self, names: frozenset[str], directory_of: Callable[[Any], Path | None]
    ) -> Callable[[Any, str, Any], None]:
        assign, directories = object.__setattr__, self.directories

        def assigned(owner: Any, name: str, value: Any) -> None:
            assign(owner, name, value)
            if name in names and (directory := directory_of(owner)) is not None:
                directories[directory] = None

        return assigned
