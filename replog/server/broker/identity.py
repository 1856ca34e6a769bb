"""The identity of this process for the controller."""

from dataclasses import dataclass, field
from typing import Any

from replog.metadata.values import NO_BROKER_EPOCH


@dataclass(slots=True)
class Identity:
    """The identity that all requests of this broker to the controller share. Its epoch changes with a registration."""

    broker_id: int
    incarnation_id: bytes = field(repr=False)  # a secret of this process and the controller
    broker_epoch: int = NO_BROKER_EPOCH

    def claim(self) -> dict[str, Any]:
        """Return the fields of a request by which the controller knows the process (CT-3)."""
        return {"broker_id": self.broker_id, "broker_epoch": self.broker_epoch, "incarnation_id": self.incarnation_id}
