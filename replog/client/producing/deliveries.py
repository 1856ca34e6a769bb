"""Outcomes of batches, and the deliveries of their records, which share them."""

import asyncio
import logging
import math
import os
from collections.abc import Generator
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple

from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition

logger = logging.getLogger(__name__)


class RecordMetadata(NamedTuple):
    """The place of a record. `offset` is -1 if it is not known: acks=0 is never answered, and a leader that restarted
    may know that the record is in its log, but not where."""

    topic: str
    partition: int
    offset: int
    timestamp: int  # ms: the record's own, or the leader's if the topic has LogAppendTime


class DeliveryFailed(ReplogError):
    """A record has failed. `may_be_appended`: it may be in the log nevertheless (PR-12)."""

    def __init__(self, code: ErrorCode, message: str, may_be_appended: bool) -> None:
        super().__init__(code, message)
        self.may_be_appended = may_be_appended


class _Unseen:
    """Logs failed records whose outcome nobody asked for, at most a line a second."""

    def __init__(self) -> None:
        self._reported_at = -math.inf
        self._unreported = 0

    def failed(self, records: int, error: ReplogError) -> None:
        self._unreported += records
        if (now := monotonic()) - self._reported_at >= 1:
            logger.warning("records failed, and nobody asked for their outcomes (%d): %s", self._unreported, error)
            self._reported_at, self._unreported = now, 0


_unseen = _Unseen()


@dataclass(slots=True, eq=False)
class Outcome:
    """The outcome of a batch. Its deliveries keep this alone, otherwise they would hold the batch's memory."""

    partition: TopicPartition
    settled: bool = False
    base_offset: int = -1
    append_time_ms: int = -1
    error: DeliveryFailed | None = None
    records: int = 0  # the batch's count, once it is settled
    seen: bool = False  # the error was raised to the application
    _waiters: list[asyncio.Future[None]] = field(default_factory=list)
    _process: int = field(default_factory=lambda: os.getpid())  # looked up late: the simulator replaces it

    def __del__(self) -> None:
        """Log an error that nobody asked for: the batch and its deliveries are gone."""
        if self.error is not None and not self.seen:
            _unseen.failed(self.records, self.error)

    def settle(self) -> None:
        self.settled = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def __await__(self) -> Generator[object, None, None]:
        """Wait until it is settled. Raises INVALID_REQUEST in a child of the process."""
        if self.settled:
            return
        if os.getpid() != self._process:
            raise ErrorCode.INVALID_REQUEST.error("the record was sent before a fork; its outcome is the parent's")
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            yield from waiter
        finally:
            if not self.settled:
                self._waiters.remove(waiter)


@dataclass(slots=True, eq=False, repr=False)
class Delivery:
    """The outcome of one record, to be awaited. It takes some 200 bytes, less than a future, and may be dropped."""

    _outcome: Outcome
    _index: int
    _timestamp: int

    @property
    def partition(self) -> int:
        """The partition that the record goes to."""
        return self._outcome.partition.partition

    @property
    def starts_batch(self) -> bool:
        """True if the record is the first of its batch."""
        return self._index == 0

    def __repr__(self) -> str:
        outcome = self._outcome
        state = "under way" if not outcome.settled else f"failed: {outcome.error}" if outcome.error else "acknowledged"
        return f"<Delivery to {outcome.partition}: {state}>"

    def done(self) -> bool:
        """Return True if the outcome is known."""
        return self._outcome.settled

    def result(self) -> RecordMetadata:
        """Return or raise what awaiting it does. Raises InvalidStateError while the record is under way."""
        outcome = self._outcome
        if not outcome.settled:
            raise asyncio.InvalidStateError("the record is not delivered yet; await it")
        if outcome.error is not None:
            error = outcome.error
            outcome.seen = True
            raise DeliveryFailed(error.code, error.message, error.may_be_appended)
        offset = outcome.base_offset + self._index if outcome.base_offset >= 0 else -1
        timestamp = self._timestamp if outcome.append_time_ms < 0 else outcome.append_time_ms
        return RecordMetadata(*outcome.partition, offset, timestamp)

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        yield from self._outcome.__await__()
        return self.result()
