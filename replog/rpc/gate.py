"""Bounds the calls of one method that run on one server. Nobody takes all places from others."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from replog.errors import ErrorCode, ReplogError
from replog.rpc.fair_queue import FairQueue
from replog.rpc.limits import Limit
from replog.rpc.peer import ANONYMOUS, Peer


def peer_key(asks: Peer) -> str:
    """Return the name under which calls are counted: the principal's, or the host's of a peer that proved nothing."""
    return asks.host if asks.principal == ANONYMOUS else asks.principal


@dataclass(slots=True, eq=False)
class _Call:
    who: str
    task: "asyncio.Task[None] | None"
    gives_way: bool = False


class Gate:
    """Bounds calls, each of which does its work inside of `with gate.place(asks)`."""

    def __init__(self, path: str, limit: Limit) -> None:
        self._path = path
        self._limit = limit
        self._calls = FairQueue[str, _Call]()  # the peers are `peer_key`s

    @contextlib.contextmanager
    def place(self, asks: Peer) -> Iterator[None]:
        """Take a place for a call. When all are taken, the peer that has most gives its newest to one that has at least
        two less.

        Raises THROTTLING_QUOTA_EXCEEDED if none has, or when this call has to give way."""
        call = _Call(peer_key(asks), asyncio.current_task())
        if len(self._calls) >= self._limit.calls:
            if not (crowd := self._calls.crowd(call.who)):
                raise self._full()
            newest = crowd[-1]
            newest.gives_way = True
            self._calls.remove(newest.who, newest)
            if newest.task is not None:
                newest.task.cancel()
        self._calls.add(call.who, call)
        try:
            yield
        except asyncio.CancelledError:
            if call.gives_way:
                raise self._full() from None
            raise
        finally:
            self._calls.remove(call.who, call)

    def _full(self) -> ReplogError:
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED.error(
            f"{len(self._calls)} calls of {self._path} are under way here, and no more are taken; try again later"
        )
