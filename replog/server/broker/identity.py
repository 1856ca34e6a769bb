"""Who this process is for the controller."""

from dataclasses import dataclass, field
from typing import Any

from replog.metadata.values import NO_BROKER_EPOCH


@dataclass(slots=True)
class Identity:
    """Shared by all who ask the controller in this broker's name. It registers again if the controller has lost it."""

    broker_id: int
    incarnation_id: bytes = field(repr=False)  # nobody but the controller may hear it
    broker_epoch: int = NO_BROKER_EPOCH  # of the registration

    def claim(self) -> dict[str, Any]:
        """The fields of a request by which the controller knows the process (CT-3)."""
        return {"broker_id": self.broker_id, "broker_epoch": self.broker_epoch, "incarnation_id": self.incarnation_id}
