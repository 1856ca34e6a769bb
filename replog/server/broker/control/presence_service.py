"""The Presence service: proves to a controller which process this is (CT-21)."""

from replog.errors import ErrorCode
from replog.metadata.incarnation import NONCE_SIZE, proof
from replog.rpc.v1 import presence_pb2 as pb
from replog.server.broker.identity import Identity


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
