"""New connections are taken at a rate, so that a storm of them does not hold up the calls of those that are there.

Kafka has such a rate, too (`max.connection.creation.rate`, KIP-612).
"""

import asyncio
import logging
import socket
from collections.abc import Callable

logger = logging.getLogger(__name__)

BACKLOG = 1024  # connections that the kernel keeps until they are taken
REST_S = 0.002  # after one was taken, which costs a server 0.3 ms with its first call
AT_ONCE = 8  # are looked at for one whose client has not gone again: they wait no longer than they must
RETRY_S = 1.0  # after the machine could give none


class Acceptor:
    """Of one listener."""

    def __init__(self, listener: socket.socket, new_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        """It takes connections from now on."""
        self._listener = listener
        self._new_protocol = new_protocol
        self._loop = asyncio.get_running_loop()
        self._beginning: set[asyncio.Task[object]] = set()
        self._resting: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        listener.listen(BACKLOG)
        self._listen()

    def close(self) -> None:
        """Again does nothing."""
        if self._listener.fileno() < 0:
            return
        if self._resting is not None:
            self._resting.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()

    def _listen(self) -> None:
        self._loop.add_reader(self._listener, self._take)

    def _rest(self, rest_s: float) -> None:
        self._loop.remove_reader(self._listener)
        self._resting = self._loop.call_later(rest_s, self._listen)

    def _take(self) -> None:
        for _ in range(AT_ONCE):
            try:
                taken, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:
                logger.warning("no connection can be taken for %g s: %s", RETRY_S, error)
                self._rest(RETRY_S)
                return
            taken.setblocking(False)
            if _is_there(taken):
                self._begin(taken)
                break
            taken.close()
        self._rest(REST_S)

    def _begin(self, taken: socket.socket) -> None:
        beginning = self._loop.create_task(self._loop.connect_accepted_socket(self._new_protocol, taken))
        self._beginning.add(beginning)
        beginning.add_done_callback(self._beginning.discard)


def _is_there(taken: socket.socket) -> bool:
    """Its client, which may have said nothing yet."""
    try:
        return bool(taken.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False
