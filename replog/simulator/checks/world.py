"""The part of a simulated world that the checks may see."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from replog.metadata.image import MetadataImage
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.simulator.history import History
from replog.simulator.runtime.process import SimulatedProcess


class WatchedBroker(Protocol):
    @property
    def manager(self) -> ReplicaManager: ...


class WatchedWorld(Protocol):
    """Look-ups only: nothing here changes anything."""

    @property
    def brokers(self) -> Mapping[int, WatchedBroker | None]:
        """The present incarnation of each broker, a paused one too; None, or missing, while there is none."""

    @property
    def image(self) -> MetadataImage | None:
        """The controller's; None while there is no controller."""

    @property
    def losses(self) -> Mapping[int, int]:
        """The number of times each broker's disk may have lost something: power losses, wiped disks, flipped bits."""

    def unsynced(self, path: Path) -> int | None:
        """Return the position in a broker's file of the first byte that a power loss may take; None: there is none."""

    @property
    def history(self) -> History: ...

    def process_of(self, broker_id: int) -> SimulatedProcess | None:
        """Return the process of the incarnation that `brokers` has."""
