"""One connection on an event loop, whatever is spoken on it: reads and writes of its socket, its TLS, and the check
that its peer lives.

The first write after a read, of this connection or of another one of the same side, goes out at once, later ones
together at the end of that turn of the loop: most often there is no other, so nothing has to be called then. While the
socket takes no more, everything waits where it is, uncopied."""

import asyncio
import contextlib
import os
import ssl
from collections.abc import Sequence
from time import monotonic
from typing import Any, cast

from replog.errors import ErrorCode, ReplogError
from replog.log.offsets import Buffer
from replog.rpc.http2.shells.reads import Reads
from replog.rpc.http2.shells.tls_layer import TlsLayer
from replog.rpc.transport import Spoken

WRITE_BYTES = 1 << 20  # taken from the connection at once
MAX_PIECES = 1024  # one writev takes no more (IOV_MAX)
ANSWER_S = 30.0  # the peer's process must answer a ping, or say anything, within it; it may be paused for a while
CLOSE_S = 1.0  # the time for the last bytes to go
CLOSED = "the connection was closed"
FLIGHT = 16 << 10  # bytes of a handshake that are taken at a time: they may have to wait
LATE_S = 1.0  # a look that is so late says that this process was held up, not that the peer is silent


class _Silence(Spoken):
    """Nothing is spoken yet."""


class SocketShell(asyncio.BufferedProtocol):
    # Defaults of the class: an object of more than 29 fields takes 1 KiB more.
    spoken: Spoken = _Silence()  # it is called directly: each call more costs every message
    lost = False  # never reset
    why = CLOSED
    _tls_layer: TlsLayer | None = None  # only with TLS
    _sealed = False  # nothing may be sent before its handshake
    _landing = False  # the next read goes to a place of its own
    _full = False  # the socket takes no more
    _asked: float | None = None  # an answer to a ping is due since then
    _closed: asyncio.Event | None = None  # somebody waits for the end
    _is_closed = False

    def __init__(self, peer: str, silence_s: float, reads: Reads) -> None:
        """`peer` names the other side. After `silence_s` it is asked if it lives."""
        self.peer = peer
        self._silence_s = silence_s
        self._reads = reads
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._descriptor = -1
        self._wrote = -1  # the count of reads at the last write
        self._will_write = False  # a write is due at the end of this turn
        self._received_at = self._look_due = self._loop.time()
        self._read_s = 0.0
        self._look: asyncio.TimerHandle | None = None

    def __str__(self) -> str:
        """Return whose messages it handles, for logs."""
        return self.peer

    # -- each kind of connection says how

    def _handle(self, received: Sequence[Any]) -> None:
        """Handle what `receive` or `landed` of `spoken` has returned."""

    def written(self) -> None:
        """Go on: all that `to_send` returned has left, or waits in the socket. Only while `spoken.pending`."""

    def ask(self) -> bool:
        """Ask the peer if it lives. Return False if it need not say anything now."""
        return True

    def on_lost(self, failure: ReplogError) -> None:
        """Fail all that is under way."""

    # -- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._descriptor = transport.get_extra_info("socket").fileno()
        self._transport.set_write_buffer_limits(high=0)
        self._wait(self._silence_s)
        self.write()

    def take_over(self, other: "SocketShell") -> None:
        """Go on in the place of another one, which knows by now what is spoken."""
        self._transport, self._descriptor, self._full = other._transport, other._descriptor, other._full
        self._tls_layer, self._read_s = other._tls_layer, other._read_s
        other.lost = True
        if other._look is not None:
            other._look.cancel()
        self._transport.set_protocol(self)
        self._wait(self._silence_s)

    def get_buffer(self, sizehint: int) -> memoryview:
        room = self._reads.room
        if self._sealed:
            return room[:FLIGHT]
        if self.spoken.places and self._tls_layer is None and (place := self.spoken.place()) is not None:
            self._landing = True
            return place[: len(room)]
        self._landing = False
        return room

    def buffer_updated(self, nbytes: int) -> None:
        self._received_at = now = self._loop.time()
        self._read_s = monotonic()  # cheaper than the loop's time
        self._asked = None
        reads = self._reads
        reads.count += 1
        if self._sealed or self._tls_layer is not None:
            self._unseal(reads.room[:nbytes], int(now * 1000))
            if nbytes >= reads.much and not (self.lost or self._sealed):  # a handshake waits elsewhere
                reads.brought_much(self)
        else:
            spoken, data, now_ms = self.spoken, reads.room[:nbytes], int(now * 1000)
            if nbytes >= reads.much:
                reads.brought_much(self)
            if received := spoken.landed(nbytes, now_ms) if self._landing else spoken.receive(data, now_ms):
                self._handle(received)
            if spoken.has_to_send:  # settings, pings, credit
                self.write_soon()  # tasks that wake now write first

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self.write()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(str(exc) if exc is not None else self.why)
        if self._look is not None:
            self._look.cancel()
        self._is_closed = True
        if self._closed is not None:
            self._closed.set()
        del self._reads  # an error's traceback that knows this connection would keep a quarter of a MiB

    def pause_reading(self) -> None:
        """Others have their turn."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    # -- TLS

    def _unseal(self, data: memoryview, now_ms: int) -> None:
        if self.lost:  # it was refused, and its last words are written all the same
            return
        tls_layer, goes_on = self._tls_layer, self
        if tls_layer is None:
            if (tls_layer := self.new_tls_layer(data)) is None:
                return
            self._tls_layer = tls_layer
        try:
            tls_layer.receive(data)
            if self._sealed and tls_layer.shake():
                self._sealed = False
                self._send_tls(tls_layer.outgoing())
                goes_on = self.on_open(tls_layer)
                goes_on._write()
            if tls_layer.open:
                goes_on._take_plain(tls_layer, now_ms)
        except ssl.SSLError as error:
            goes_on.on_unsafe(error)
            goes_on.refuse_connection(goes_on.why, tls_layer.outgoing())
            return
        goes_on._send_tls(tls_layer.outgoing())
        if tls_layer.ended:
            goes_on.close()

    def _take_plain(self, tls_layer: TlsLayer, now_ms: int) -> None:
        spoken = self.spoken
        while not self.lost:  # a message may close it
            place = spoken.place() if spoken.places else None
            room = self._reads.plain if place is None else place
            size = tls_layer.fill(room)
            if not size:
                break
            if received := spoken.receive(room[:size], now_ms) if place is None else spoken.landed(size, now_ms):
                self._handle(received)
        if spoken.has_to_send:
            self.write_soon()

    def new_tls_layer(self, data: memoryview) -> TlsLayer | None:
        """Make the TLS when the first bytes arrive."""
        raise NotImplementedError

    def on_open(self, tls_layer: TlsLayer) -> "SocketShell":
        """The handshake is done. Return the connection that goes on: this one, or the one that takes over."""
        return self

    def on_unsafe(self, error: ssl.SSLError) -> None:
        """The handshake, or a later record, was wrong: report why."""

    def _send_tls(self, data: bytes) -> None:
        if data and not self.lost:
            self._transport.write(data)

    def refuse_connection(self, why: str, last_words: bytes) -> None:
        """Close after a second for the last words: a socket that is closed with something unread loses what it sent."""
        self.why = why
        self._send_tls(last_words)
        self._end(why)
        with contextlib.suppress(OSError):  # the peer is gone
            self._transport.write_eof()
        self._look = self._loop.call_later(CLOSE_S, self._transport.abort)

    # -- what leaves

    def write(self) -> None:
        """Write what there is to send: at once, or at the end of this turn of the loop if it is the second time."""
        if self._wrote == self._reads.count:
            self.write_soon()
        else:
            self._wrote = self._reads.count
            self._write()

    def write_soon(self) -> None:
        """Write at the end of this turn."""
        if not self._will_write:
            self._will_write = True
            self._loop.call_soon(self._end_of_turn)

    def _end_of_turn(self) -> None:
        self._will_write = False
        self._wrote = -1
        self._write()

    def _write(self) -> None:
        spoken = self.spoken
        while not (self._full or self.lost or self._sealed) and (pieces := spoken.to_send(WRITE_BYTES)):
            plain = size = sum(map(len, pieces))
            try:
                if self._tls_layer is not None:
                    pieces[:] = self._tls_layer.seal(pieces)
                    size = sum(map(len, pieces))
                sent = os.writev(self._descriptor, pieces[:MAX_PIECES])
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self.why = str(error)
                self.abort()
                break
            if sent < size:
                self._transport.write(_after(sent, pieces))  # it pauses writing until the socket has taken it
            if plain < WRITE_BYTES:
                break
        if spoken.pending:
            self.written()

    # -- the end

    def close(self, why: str | None = None) -> None:
        """Write what can be written now, and close. The socket is aborted if the peer does not take what was sent."""
        if not self.lost:
            self.why = why or self.why
            self._write()
            if self._tls_layer is not None:
                self._send_tls(self._tls_layer.close())
            self._transport.close()
            self._end(self.why)
            self._look = self._loop.call_later(CLOSE_S, self._transport.abort)

    async def closed(self) -> None:
        """Wait after `close` until the socket is closed."""
        if not self._is_closed:
            self._closed = self._closed or asyncio.Event()
            await self._closed.wait()

    def abort(self) -> None:
        self._transport.abort()
        self._end(self.why)

    def _end(self, why: str) -> None:
        if self.lost:
            return
        self.lost = True
        if self._look is not None:
            self._look.cancel()
        self.on_lost(ErrorCode.NETWORK_EXCEPTION.error(f"{self.peer} cannot be reached: {why}"))

    # -- the peer's life

    def _wait(self, seconds: float) -> None:
        self._look_due = self._loop.time() + seconds
        self._look = self._loop.call_later(seconds, self._look_at_peer)

    def _look_at_peer(self) -> None:
        now = self._loop.time()
        if now - self._look_due > LATE_S:
            self._wait(LATE_S)
        elif self._asked is not None and now - self._asked >= ANSWER_S:
            self.why = f"it said nothing for {now - self._received_at:.0f} s and answered no ping"
            self.abort()
        elif self._asked is not None:
            self._wait(self._asked + ANSWER_S - now)
        elif now - self._received_at < self._silence_s:
            self._wait(self._received_at + self._silence_s - now)
        elif self.ask():
            self._asked = now
            self._wait(ANSWER_S)
        else:
            self._wait(self._silence_s)


def _after(size: int, pieces: Sequence[Buffer]) -> bytes:
    """Return all except the first `size` bytes."""
    for number, piece in enumerate(pieces):
        if size < len(piece):
            return b"".join((memoryview(piece)[size:], *pieces[number + 1 :]))
        size -= len(piece)
    return b""
