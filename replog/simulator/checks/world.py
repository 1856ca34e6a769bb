"""What the checks may see of a simulated world."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from replog.metadata.image import MetadataImage
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.simulator.history import History
from replog.simulator.runtime.process import SimulatedProcess

CONTROLLER = "controller"  # what the name of its process begins with; those of brokers and clients have others


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
        """By broker, how often its disk may have lost something so far: power losses, wiped disks, flipped bits."""

    def unsynced(self, path: Path) -> int | None:
        """Where in a broker's file the first byte lies that a loss of power may take; None: nowhere."""

    @property
    def history(self) -> History: ...

    def process_of(self, broker_id: int) -> SimulatedProcess | None:
        """Of the incarnation that `brokers` has."""
