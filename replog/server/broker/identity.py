"""The identity of this process for the controller, and its proof (CT-21)."""

from dataclasses import dataclass, field
from typing import Any

from replog.errors import ErrorCode
from replog.metadata.values import NO_BROKER_EPOCH, NONCE_SIZE, proof
from replog.rpc.v1 import presence_pb2 as pb


@dataclass(slots=True)
class Identity:
    """The identity that all requests of this broker to the controller share. Its epoch changes with a registration."""

    broker_id: int
    incarnation_id: bytes = field(repr=False)  # a secret of this process and the controller
    broker_epoch: int = NO_BROKER_EPOCH

    def claim(self) -> dict[str, Any]:
        """Return the fields of a request by which the controller knows the process (CT-3)."""
        return {"broker_id": self.broker_id, "broker_epoch": self.broker_epoch, "incarnation_id": self.incarnation_id}


class PresenceService:
    """Handlers for `replog.v1.Presence`. They answer from the first moment on, before the broker registers."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    async def are_you(self, request: pb.AreYouRequest) -> pb.AreYouResponse:
        """Prove this process's incarnation id. Raises INVALID_REQUEST for a nonce of another size."""
        if len(request.nonce) != NONCE_SIZE:
            raise ErrorCode.INVALID_REQUEST.error(
                f"a nonce of {len(request.nonce)} bytes; send {NONCE_SIZE} random ones"
            )
        me = self._identity
        return pb.AreYouResponse(proof=proof(me.incarnation_id, me.broker_id, request.nonce))
