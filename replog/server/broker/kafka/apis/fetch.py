"""Fetch 4–17: sessions from 7 on (KIP-227), topics by their ids from 13 on. Consumers only: replicas fetch over gRPC.

A connection's fetches are answered one after the other, by callbacks: none makes a task."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from leader.consumer_session import ConsumerSession
from replog.common.acl import Operation
from replog.errors import ErrorCode, ReplogError
from replog.log.fetch import CONSUMER, FetchAnswer, SessionRequest, SessionRow, answer_of, size_of
from replog.metadata.values import NO_BROKER_EPOCH
from replog.server.broker.clients.quotas import CONSUMED
from replog.server.broker.context import CONSUMER as FETCH
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.fetch_requests import FetchRequests, isolation_of
from replog.server.broker.kafka.fetch_rows import FetchRows, refusal
from replog.server.broker.kafka.service import KafkaService
from replog.server.broker.replicas.byte_pool import Lease
from replog.server.work import SLICE

logger = logging.getLogger(__name__)

FIRST_WITH_RACK = 11
RETRY_MS = 1000  # a client whose fetch has no room here waits so long before the next: it would ask again at once


def serve(service: KafkaService, call: Call) -> None:
    kept = call.connection.kept
    reader = kept.get("fetch")
    if not isinstance(reader, _Reader):
        reader = kept["fetch"] = _Reader(service, call)
    reader.take(call)


class _Reader:
    """The fetches of a connection, and its session with the partitions that it reads."""

    def __init__(self, service: KafkaService, call: Call) -> None:
        manager, config = service.manager, service.context.config
        self._service = service
        self._context = service.context
        self._throttle = service.quotas.of(call.asks, CONSUMED)
        self._lease = Lease(manager.sessions.answers)
        self._requests = FetchRequests(service.context.image.index.name_of)
        self._session = ConsumerSession(
            manager.sessions,
            service.replicas,
            self._on_ready,
            max_bytes=config.fetch_max_bytes,
            max_wait_ms=config.request_timeout_ms,
            permits=call.permits(Operation.READ),
        )
        self._calls: deque[Call] = deque()  # they wait for their turn
        self._call: Call | None = None  # the one whose turn it is, until its answer has left
        self._request: SessionRequest
        self._asked = False  # the session has the request
        self._timer: asyncio.TimerHandle | None = None  # the deadline of a request that waits for records
        self._ready = False  # the request need not wait any more
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        self._calls.clear()
        self._stop_timer()
        self._session.close()
        self._lease.resize(0)
        del self._session  # it refers back here; otherwise both would stay until the next full garbage collection

    # -- one request after the other

    def take(self, call: Call) -> None:
        self._calls.append(call)
        self._next()

    def _next(self) -> None:
        if self._call is None and self._calls:
            self._call = call = self._calls.popleft()
            self._run(self._begin(call, call.message))

    def _run(self, steps: Iterator[None]) -> None:
        """Do what is left of some work, in slices. What it raises is the answer."""
        if self._is_closed:
            return
        try:
            if next(steps, self) is not self:
                asyncio.get_running_loop().call_soon(self._run, steps)
        except ReplogError as error:
            self._refuse(error)
        except Exception as error:
            logger.exception("a fetch failed")
            self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR.error(f"{type(error).__name__}: {error}"))

    def _begin(self, call: Call, message: Any) -> Iterator[None]:
        if message.replica_id >= 0 or message.replica_state.replica_id >= 0:
            raise ErrorCode.INVALID_REQUEST.error("replicas fetch over gRPC")
        requests, session = self._requests, self._session
        yield from requests.read(message, call.version, session.named)
        rack = None
        if call.version >= FIRST_WITH_RACK:  # a follower may serve these, as Kafka's do (FE-20)
            rack = message.rack_id if self._context.config.replica_selector_class else ""
        request = self._request = SessionRequest(
            replica_id=CONSUMER,
            broker_epoch=NO_BROKER_EPOCH,
            max_wait_ms=0 if requests.unknown else message.max_wait_ms,
            min_bytes=max(0, message.min_bytes),
            max_bytes=max(0, message.max_bytes),
            named={},
            isolation=isolation_of(message.isolation_level),
            rack=rack,
        )
        session.on_request(request)
        for count, tp in enumerate(requests.forgotten, 1):
            session.forget(tp)
            if not count % SLICE:
                yield
        for count, (tp, fetch) in enumerate(requests.named.items(), 1):
            session.name(tp, fetch)
            if not count % SLICE:
                yield
        if not requests.is_full and not session.named and not requests.unknown:
            requests.end()
        self._asked = False
        call.throttle(self._throttle.wait_ms())
        self._ask_for_room()

    def _ask_for_room(self) -> None:
        """Read once there is room, if there may be something to read. A client that has had too much gets nothing."""
        assert self._call is not None
        if self._session.due and not self._call.throttle_ms:
            self._lease.ask(min(self._request.max_bytes, self._context.config.fetch_max_bytes), self._read)
        else:
            self._read(0)

    def _read(self, room: int) -> None:
        """Answer with at most `room` bytes, or wait until there is enough to say (FE-8 to FE-13)."""
        self._run(self._steps(room))

    def _steps(self, room: int) -> Iterator[None]:
        now_ms, self._ready = self._context.clock.monotonic_ms(), False
        if self._asked:
            rows = self._session.answer(now_ms, room)
        else:
            self._asked, rows = True, self._session.ask(self._request, now_ms, room)
        if rows is not None:
            yield from self._answer(rows)
            return
        self._lease.resize(0)
        deadline_ms = self._session.deadline_ms
        if self._ready or deadline_ms is None:
            self._ask_for_room()
        else:
            delay_s = max(0, deadline_ms - now_ms) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_ready)

    def _on_ready(self) -> None:
        self._ready = True
        if self._timer is not None:
            self._stop_timer()
            self._ask_for_room()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- answers

    def _answer(self, rows: Sequence[SessionRow]) -> Iterator[None]:
        call, requests, context, size = self._call, self._requests, self._context, size_of(rows)
        assert call is not None
        context.traffic.fetched(FETCH, rows)
        context.traffic.answered(FETCH, call.begun_s)
        self._lease.resize(size)
        if size:
            context.throttle.served()
            self._throttle.record(size)
            call.throttle(self._throttle.wait_ms())
        answers = FetchRows(self._service, call.version, self._request.isolation)
        for count, row in enumerate(self._all(rows) if requests.is_full else rows, 1):
            answers.add(*row)
            if not count % SLICE:
                yield
        for topic_id, number in requests.unknown:
            answers.add_unknown(topic_id, number)
        call.answer(answers.response(requests.session_id), self._left if size else None)
        if not size:  # nobody waits for so little to leave
            self._left()

    def _all(self, rows: Sequence[SessionRow]) -> Iterator[SessionRow]:
        """Yield all partitions of the request. Those without news are looked up again: an ACL may be gone."""
        news = {row.topic_partition: row for row in rows}
        for tp, fetch in self._requests.wanted.items():
            if (row := news.get(tp)) is not None:
                yield row
            else:
                reader = self._session.reader(tp, fetch)
                answer = FetchAnswer(reader) if isinstance(reader, ErrorCode) else answer_of(reader.log)
                yield SessionRow(tp, fetch, answer)

    def _refuse(self, error: ReplogError) -> None:
        call = self._call
        assert call is not None
        self._requests.end()
        self._stop_timer()
        if error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            call.throttle(RETRY_MS)
        call.answer(refusal(call, error))
        self._left()

    def _left(self) -> None:
        """The answer and its records have left: their room is free, and the next request has its turn."""
        self._lease.resize(0)
        self._call = None
        if self._calls:
            asyncio.get_running_loop().call_soon(self._next)
