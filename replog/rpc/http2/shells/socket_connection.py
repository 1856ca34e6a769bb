"""gRPC's messages on a connection: the part that both sides share."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, ClassVar, get_args

from replog.rpc.http2.protocol import events
from replog.rpc.http2.protocol.connection import Connection
from replog.rpc.http2.shells.message_stream import STEP_S, MessageStream
from replog.rpc.http2.shells.reads import Reads
from replog.rpc.http2.shells.socket_shell import SocketShell


class SocketConnection(SocketShell):
    _on: ClassVar[
        dict[type[Any], Callable[[Any, Any], None]]
    ]  # the class has it: an object that refers to itself lives longer

    def __init_subclass__(cls) -> None:
        """Find the side's method for every event that it cares for: `on_goaway` is for `GoAway`."""
        names = {kind: f"on_{kind.__name__.lower()}" for kind in get_args(events.Event)}
        cls._on = {kind: getattr(cls, name) for kind, name in names.items() if hasattr(cls, name)}

    def __init__(self, http2: Connection, peer: str, silence_s: float, reads: Reads) -> None:
        super().__init__(peer, silence_s, reads)
        self.http2 = self.spoken = http2
        self.streams: dict[int, MessageStream] = {}

    # -- what arrives

    def _handle(self, received: Sequence[events.Event]) -> None:
        for event in received:
            if type(event) is not events.Message:
                if (handler := self._on.get(type(event))) is not None:
                    handler(self, event)
                continue
            stream_id, payload = event
            stream = self.streams.get(stream_id)
            if stream is not None:
                late = monotonic() - self._read_s >= STEP_S
                stream.on_message(payload, late=late)  # type: ignore[arg-type]  # protobuf parses a bytearray as well
            else:  # given up
                self.http2.consumed(stream_id, len(payload))

    def on_writable(self, event: events.Writable) -> None:
        if (stream := self.streams.get(event.stream_id)) is not None:
            stream.on_writable()

    def on_failed(self, event: events.Failed) -> None:
        self.why = event.text
        self.close()

    # -- what leaves

    def written(self) -> None:
        self._handle(self.http2.events())

    def ask(self) -> bool:
        self.http2.ping()
        self.write()
        return True
