"""A connection on which a server speaks something else than gRPC: a `Talk`, which knows no socket."""

import asyncio
from collections.abc import Iterable

from replog.errors import ReplogError
from replog.rpc.http2.shells.accepted import SILENCE_S, Accepted
from replog.rpc.transport import NewTalk


class TalkConnection(Accepted):
    """`replog.rpc.transport.TalkWire`, too."""

    def __init__(self, newcomer: Accepted, new_talk: NewTalk) -> None:
        super().__init__("the client", SILENCE_S, newcomer.shared.reads)
        self._wants_more = True
        self._in_line = False
        self.succeed(newcomer)
        self._talk = self.spoken = new_talk(self)
        if self.unauthenticated:
            self.hang_up(self.unauthenticated)

    def __str__(self) -> str:
        return f"{self.peer}, {self._talk}"

    def written(self) -> None:
        self._talk.written()

    def ask(self) -> bool:
        """A client may be silent. But it must take its answers."""
        return self._full

    def resume_writing(self) -> None:
        self._asked, self._received_at = None, self._loop.time()
        super().resume_writing()

    # -- its reads: they stop while it waits for its turn, and while more is not wanted

    def read(self, on: bool) -> None:
        if on != self._wants_more:
            self._wants_more = on
            self._read_or_not()

    def pause_reading(self) -> None:
        self._in_line = True
        self._read_or_not()

    def resume_reading(self) -> None:
        self._in_line = False
        self._read_or_not()

    def _read_or_not(self) -> None:
        if self.lost or (self._wants_more and not self._in_line):
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # -- its end

    def drain(self) -> None:
        self._talk.drain()

    def drained(self) -> None:
        self.shared.on_drained()

    @property
    def busy(self) -> bool:
        return self._talk.busy()

    def tasks(self) -> list[asyncio.Task[None]]:
        return self._talk.tasks()

    @property
    def held(self) -> int:
        return self._talk.held()

    def holdings(self) -> Iterable[tuple[int, int, int]]:
        return ((0, self._talk.held(), self._talk.since_ms),)

    def refuse(self, stream_id: int, error: ReplogError) -> None:
        self.hang_up(error.message)

    def hang_up(self, why: str) -> None:
        if not self.lost:
            self.log_refusal(why)
            self.dismiss(why)

    def dismiss(self, why: str) -> None:
        if not self.lost:
            self._write()
            self.refuse_connection(why, b"" if self._tls_layer is None else self._tls_layer.close())
            self._read_or_not()  # more is dropped, so that the client gets the last words

    def on_lost(self, failure: ReplogError) -> None:
        self._talk.close()
        self.shared.on_drained()
