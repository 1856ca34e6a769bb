"""The Presence service: tells a controller which process this is (CT-21)."""

from replog.rpc.v1 import presence_pb2 as pb


class PresenceService:
    """Handlers for `replog.v1.Presence`. Answers from the first moment on, long before the broker registers."""

    def __init__(self, broker_id: int, incarnation_id: bytes) -> None:
        self._me = broker_id, incarnation_id

    async def are_you(self, request: pb.AreYouRequest) -> pb.AreYouResponse:
        return pb.AreYouResponse(yes=(request.broker_id, request.incarnation_id) == self._me)
