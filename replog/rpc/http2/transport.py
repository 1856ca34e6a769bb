"""gRPC over HTTP/2 on the event loop itself: no threads, and no library of C between a message and its socket."""

from replog.rpc.http2.channel import H2Channel
from replog.rpc.http2.server import H2Server
from replog.rpc.refusal import is_refused


class H2Transport:
    """`replog.rpc.transport.Transport`."""

    def connect(self, address: str) -> H2Channel:
        return H2Channel(address)

    def listen(self, address: str) -> H2Server:
        return H2Server(address)

    async def is_refused(self, address: str, timeout_s: float) -> bool:
        return await is_refused(address, timeout_s)
