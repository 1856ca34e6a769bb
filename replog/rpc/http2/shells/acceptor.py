"""Begins new connections of one server at a rate, so that a storm of them does not hold up the calls of the others (as
Kafka's `max.connection.creation.rate` does, KIP-612).

Connections that have to wait do it here: hosts take turns, and of one host the newest goes first. A client gives up
after some seconds, so if the oldest went first, in a long storm all would be begun in vain."""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence

from replog.rpc.fair_queue import FairQueue

logger = logging.getLogger(__name__)

BACKLOG = 1024  # connections that the kernel keeps until they are accepted
MAX_WAITING = 1024  # accepted ones; beyond, the host that has most of them loses its oldest
TAKEN_AT_ONCE = 16  # each costs some 20 us
REST_S = 0.002  # the pause after each beginning, which costs a server 0.1 ms, and 0.3 with its first call
RETRY_S = 1.0  # the pause after the machine could give none


class Acceptor:
    def __init__(self, listeners: Sequence[socket.socket], new_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        """Accept connections from now on."""
        self._listeners = listeners
        self._new_protocol = new_protocol
        self._loop = asyncio.get_running_loop()
        self._waiting = FairQueue[str, socket.socket]()
        self._beginning: set[asyncio.Task[object]] = set()
        self._again_s = 0.0  # the loop's time when the next can be accepted
        self._resting: asyncio.TimerHandle | None = None
        for listener in listeners:
            listener.setblocking(False)
            listener.listen(BACKLOG)
        self._listen()

    def close(self) -> None:
        """Close all connections that wait, too."""
        if self._resting is None:
            self._stop_listening()
        else:
            self._resting.cancel()
        for task in self._beginning:
            task.cancel()
        for listener in self._listeners:
            listener.close()
        self._listeners = ()
        while self._waiting:
            self._waiting.take(newest=True).close()

    def _listen(self) -> None:
        self._resting = None
        for listener in self._listeners:
            self._loop.add_reader(listener, self._look)

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            self._loop.remove_reader(listener)

    def _look(self) -> None:
        """Accept connections, and begin the next one."""
        if self._resting is None:
            self._stop_listening()
        now, are_more = self._loop.time(), False
        if now >= self._again_s:
            try:
                for listener in self._listeners:
                    are_more |= self._take(listener)
            except OSError as error:
                logger.warning("no connection can be taken for %g s: %s", RETRY_S, error)
                self._again_s = now + RETRY_S
        for _ in range(len(self._waiting) - MAX_WAITING):
            self._waiting.take_surplus().close()
        self._begin_one()
        if self._waiting or are_more:
            self._resting = self._loop.call_later(REST_S, self._look)
        else:
            self._resting = self._loop.call_later(max(REST_S, self._again_s - now), self._listen)

    def _take(self, listener: socket.socket) -> bool:
        """Accept some. Return True if there may be more. Raises OSError when the machine can give none."""
        for _ in range(TAKEN_AT_ONCE):
            try:
                taken, place = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return False
            taken.setblocking(False)
            self._waiting.add(place[0], taken)
        return True

    def _begin_one(self) -> None:
        """Begin the next connection whose client is still there; close some others."""
        for _ in range(min(TAKEN_AT_ONCE, len(self._waiting))):
            newest = self._waiting.take(newest=True)
            if _is_there(newest):
                self._begin(newest)
                break
            newest.close()

    def _begin(self, taken: socket.socket) -> None:
        def begun(task: asyncio.Task[object]) -> None:
            self._beginning.discard(task)
            if task.cancelled() or task.exception() is not None:  # the loop does not know the socket yet
                taken.close()

        beginning = self._loop.create_task(self._loop.connect_accepted_socket(self._new_protocol, taken))
        self._beginning.add(beginning)
        beginning.add_done_callback(begun)


def _is_there(taken: socket.socket) -> bool:
    """Return True if its client is there, even if it has sent nothing yet."""
    try:
        return bool(taken.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False
