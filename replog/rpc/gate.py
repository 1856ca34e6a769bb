"""Bounds the calls of one method that run on one server. Nobody takes all places from others."""

import asyncio
from types import TracebackType

from replog.errors import ErrorCode, ReplogError
from replog.rpc.limits import Limit
from replog.rpc.peer import ANONYMOUS, Peer


def peer_key(asks: Peer) -> str:
    """Return the name under which calls are counted: the principal's, or the host's of a peer that proved nothing."""
    return asks.host if asks.principal == ANONYMOUS else asks.principal


class Gate:
    """Bounds calls, each of which does its work inside of `with gate.place(asks)`."""

    def __init__(self, path: str, limit: Limit) -> None:
        self._path = path
        self._limit = limit
        self._under_way = 0
        self._of: dict[str, dict[Place, None]] = {}  # the keys are `peer_key`s; oldest first

    def place(self, asks: Peer) -> "Place":
        return Place(self, peer_key(asks))

    def take(self, place: "Place") -> None:
        """Take a place. When all are taken, the peer that has most gives its newest to one that has at least two less.

        Raises THROTTLING_QUOTA_EXCEEDED if none has."""
        if self._under_way >= self._limit.calls:
            most = max(self._of.values(), key=len, default={})
            if len(most) <= len(self._of.get(place.who, ())) + 1:
                raise self.full()
            next(reversed(most)).give_way()
        self._under_way += 1
        self._of.setdefault(place.who, {})[place] = None

    def leave(self, place: "Place") -> None:
        places = self._of.get(place.who, {})
        if place in places:
            del places[place]
            self._under_way -= 1
            if not places:
                del self._of[place.who]

    def full(self) -> ReplogError:
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED.error(
            f"{self._under_way} calls of {self._path} are under way here, and no more are taken; try again later"
        )


class Place:
    """The place of one call. One that has to give way ends with THROTTLING_QUOTA_EXCEEDED."""

    def __init__(self, gate: Gate, who: str) -> None:
        self.who = who
        self._gate = gate
        self._task: asyncio.Task[None] | None = None
        self._gives_way = False

    def give_way(self) -> None:
        self._gate.leave(self)
        self._gives_way = True
        if self._task is not None:
            self._task.cancel()

    def __enter__(self) -> None:
        """Raises THROTTLING_QUOTA_EXCEEDED when there are too many calls."""
        self._gate.take(self)
        self._task = asyncio.current_task()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._gate.leave(self)
        if self._gives_way and isinstance(error, asyncio.CancelledError):
            raise self._gate.full() from None
