"""Bounds what the peers of one server have in its memory: messages that are incomplete, or that no handler has taken.

Each connection bounds its own (`Bounds.memory`). All of them together have `limits.MAX_UNREAD_BYTES`; when that is
almost full, calls are refused until an eighth is free again, first those that cost most: bytes times time. So a message
that arrives and is taken is safe beside many that stay."""

import asyncio
from collections.abc import Iterable
from typing import Protocol

from replog.errors import ErrorCode, ReplogError
from replog.rpc import limits
from replog.rpc.http2.protocol.bounds import RESERVED_TIMES

PARTS = 8  # parts of the memory: a look is due when one of them may be full


class Served(Protocol):
    """A client's connection."""

    @property
    def held(self) -> int:
        """The bytes of messages that are incomplete, or that no handler has taken."""

    def holdings(self) -> Iterable[tuple[int, int, int]]:
        """Return the streams that hold them: number, bytes, since when."""

    def refuse(self, stream_id: int, error: ReplogError) -> None:
        """Drop what the stream holds."""


class Unread:
    def __init__(self, connections: Iterable[Served]) -> None:
        """`connections` are those that are open at any time."""
        self._connections = connections
        self._part = limits.MAX_UNREAD_BYTES // PARTS
        self._unseen = 0  # bytes that may be taken since the last look

    def count(self, size: int) -> None:
        self._unseen += size * RESERVED_TIMES
        if self._unseen >= self._part:
            self._unseen = 0
            self._look()

    def _look(self) -> None:
        held = sum(connection.held for connection in self._connections)
        if held <= limits.MAX_UNREAD_BYTES - self._part:
            return
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        costs = [
            ((now_ms - since_ms + 1) * size, size, stream_id, connection)
            for connection in self._connections
            for stream_id, size, since_ms in connection.holdings()
        ]
        costs.sort(key=lambda cost: cost[0], reverse=True)
        for cost, size, stream_id, connection in costs:
            if held <= limits.MAX_UNREAD_BYTES - 2 * self._part:
                break
            held -= size
            why = (
                f"messages that are incomplete, or wait, fill the {limits.MAX_UNREAD_BYTES} bytes that this server has "
                f"for them; this call has had {size} of them for {cost / size / 1000:.1f} s; send it again later"
            )
            connection.refuse(stream_id, ErrorCode.THROTTLING_QUOTA_EXCEEDED.error(why))
