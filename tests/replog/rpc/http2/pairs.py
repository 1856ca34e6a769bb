"""Two connections in memory, and the bytes between them."""

from replog.rpc.http2.protocol.bounds import Bounds
from replog.rpc.http2.protocol.connection import Connection
from replog.rpc.http2.protocol.events import Event, Headers, Message, Unreadable

REQUEST = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/replog.v1.Log/Produce"),
    (b":authority", b"127.0.0.1:9092"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
    (b"grpc-timeout", b"5000m"),
]
ANSWER = [(b":status", b"200"), (b"content-type", b"application/grpc")]
OK = [(b"grpc-status", b"0"), (b"grpc-message", b"")]
BOUNDS = Bounds(max_message=4 << 20)


class Pair:
    """A client and a server that have exchanged their SETTINGS. What either hears is kept until it is looked at."""

    def __init__(self, client: Bounds = BOUNDS, server: Bounds = BOUNDS) -> None:
        self.client = Connection("client", client)
        self.server = Connection("server", server)
        self.heard_by_client: list[Event] = []
        self.heard_by_server: list[Event] = []
        self.sent_by_client = bytearray()
        self.sent_by_server = bytearray()
        self.exchange()

    def exchange(self, take: bool = True) -> None:
        """Until neither has anything to send. With `take`, messages are taken as they come."""
        while True:
            to_server, to_client = b"".join(self.client.to_send()), b"".join(self.server.to_send())
            self.sent_by_client += to_server
            self.sent_by_server += to_client
            for connection, heard, data in (
                (self.server, self.heard_by_server, to_server),
                (self.client, self.heard_by_client, to_client),
            ):
                events = connection.receive(data, 0)
                heard += events
                for event in events:
                    if take and isinstance(event, Message):
                        connection.consumed(event.stream_id, len(event.payload))
            if not to_server and not to_client:
                return

    def client_hears(self) -> list[Event]:
        self.exchange()
        heard, self.heard_by_client = self.heard_by_client, []
        return heard

    def server_hears(self) -> list[Event]:
        self.exchange()
        heard, self.heard_by_server = self.heard_by_server, []
        return heard

    def call(self) -> int:
        """A stream that both sides know, with the headers of its answer."""
        stream = self.client.open(REQUEST)
        assert self.server_hears() == [Headers(stream, REQUEST, False)]
        self.server.send_headers(stream, ANSWER)
        assert self.client_hears() == [Headers(stream, ANSWER, False)]
        return stream


def unreadable(events: list[Event]) -> list[tuple[int, int]]:
    """Streams, and gRPC's status of each, that cannot be read any more."""
    return [(event.stream_id, event.status) for event in events if isinstance(event, Unreadable)]
