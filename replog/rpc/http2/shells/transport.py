"""gRPC over HTTP/2 on the event loop itself: no threads, and no library of C between a message and its socket."""

from replog.rpc.http2.shells.channel import H2Channel
from replog.rpc.http2.shells.server import H2Server
from replog.rpc.limits import UNSAID, ConnectionLimits
from replog.rpc.refusal import is_refused
from replog.rpc.tls import Tls


class H2Transport:
    """`replog.rpc.transport.Transport`."""

    def __init__(self, tls: Tls | None = None, limits: ConnectionLimits = UNSAID) -> None:
        """`limits` are the servers'."""
        self.tls = tls
        self._limits = limits

    def connect(self, address: str) -> H2Channel:
        return H2Channel(address, self.tls)

    def listen(self, address: str) -> H2Server:
        return H2Server(address, self.tls, self._limits)

    async def is_refused(self, address: str, timeout_s: float) -> bool:
        return await is_refused(address, timeout_s)
