"""A request becomes a call of its API's handler; what the handler raises becomes the answer.

What is not served is answered, too, with UNSUPPORTED_VERSION: a client that finds its connection closed would only ask
again on a new one. To ApiVersions that is the answer of version 0, which every client reads; of an API that is served,
an answer of the nearest version; of any other, the error's code alone."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from replog.errors import ErrorCode, ReplogError
from replog.kafka.frames import API_VERSIONS, PRODUCE, Request, answer_body
from replog.kafka.versions import Api
from replog.log.offsets import Buffer
from replog.rpc import limits
from replog.rpc.peer import handling
from replog.server.broker.kafka.apis.api_versions import unknown_version
from replog.server.broker.kafka.call import Call, Line
from replog.server.broker.kafka.handlers import Handler
from replog.server.broker.kafka.refusals import refused
from replog.server.broker.kafka.service import KafkaService

logger = logging.getLogger(__name__)

FETCH = 1
TURN_S = 0.001  # the time of all that wait in line, in a turn of the loop: producers beside them need many turns
AT_ONCE = 8  # requests of a connection that are handled when they arrive; further ones wait in line
_UNKNOWN = Api(-1, "Unknown", 0, 0)
_LARGE = {43: 8 * limits.MIB, 45: 8 * limits.MIB, 46: 8 * limits.MIB}  # they may name every partition of a cluster


def most_bytes(key: int) -> int:
    """Return how many bytes a request of an API may have."""
    return limits.MAX_REQUEST_BYTES if key == PRODUCE else _LARGE.get(key, 2 * limits.MIB)


class Dispatcher:
    """Calls the handlers of one listener."""

    def __init__(self, service: KafkaService, handlers: Mapping[int, Handler]) -> None:
        self._service = service
        self._handlers = handlers
        self._line = deque[Callable[[], None]]()
        self._turn_is_due = False

    def serves(self, key: int, version: int) -> bool:
        handler = self._handlers.get(key)
        return handler is not None and handler.api.oldest <= version <= handler.api.newest

    def line_up(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` later: all that wait in line have TURN_S together in a turn of the loop."""
        self._line.append(go_on)
        self._have_turn()

    def _have_turn(self) -> None:
        if self._line and not self._turn_is_due:
            self._turn_is_due = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn_is_due = False
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + TURN_S
        try:
            for _ in range(len(self._line)):
                self._line.popleft()()
                if now_s() >= until_s:
                    break
        finally:
            self._have_turn()

    def is_ready(self, key: int, go_on: Callable[[], None]) -> bool:
        """Return True if such a request may be taken now. Else `go_on` is called when to ask again."""
        waiting = self._service.manager.waiting_produces
        if key != PRODUCE or waiting.has_room:
            return True
        waiting.when_room(go_on)
        return False

    def begin(
        self, connection: Line, request: Request, tasks: "dict[asyncio.Task[None], None]"
    ) -> Iterator[None] | None:
        """Handle a request. If that takes long it gives steps, which the next request has to wait for; `tasks` has
        those that run."""
        context = self._service.context
        handler, begun_s = self._handlers.get(request.key), context.clock.monotonic_s()
        api = _UNKNOWN if handler is None else handler.api
        call = Call(connection, context.authorizer, api, request, begun_s)
        if handler is None or request.message is None:
            self._refuse_version(call, request.key)
            return None
        handling(call.asks)
        if handler.is_task:
            task = asyncio.get_running_loop().create_task(self._run(handler, call), name=call.path)
            tasks[task] = None
            task.add_done_callback(tasks.pop)
            return None
        try:
            outcome = handler.serve(self._service, call)
        except Exception as error:  # noqa: BLE001 (the boundary: every failure becomes an answer)
            fail(call, error)
            return None
        return None if outcome is None else _steps(call, outcome)

    async def _run(self, handler: Handler, call: Call) -> None:
        try:
            with handler.gate.place(call.asks):
                call.answer(await handler.serve(self._service, call))
        except Exception as error:  # noqa: BLE001 (the boundary)
            fail(call, error)

    def _refuse_version(self, call: Call, key: int) -> None:
        if key == API_VERSIONS:
            call.version = 0
            call.answer(unknown_version())
        elif call.api is _UNKNOWN:
            call.answer(int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big"))
        else:
            api = call.api
            said = f"{api.name} of version {call.version} is not served, {api.oldest} to {api.newest} are"
            call.version = max(api.oldest, min(call.version, api.newest))
            fail(call, ErrorCode.UNSUPPORTED_VERSION.error(said))

    def ended(self, call: Call, response: Any) -> None:
        """Count a request that was answered. Produce and Fetch are counted where gRPC's are."""
        if call.api.key not in (PRODUCE, FETCH):
            traffic = self._service.context.traffic
            traffic.answered(call.api.name, call.begun_s)
            if code := getattr(response, "error_code", 0):
                traffic.errors[call.api.name, ErrorCode(code)] += 1


def _steps(call: Call, steps: Iterator[None]) -> Iterator[None]:
    try:
        yield from steps
    except Exception as error:  # noqa: BLE001 (the boundary)
        fail(call, error)


def fail(call: Call, error: Exception) -> None:
    """Answer with an error; a defect is logged, too."""
    if not isinstance(error, ReplogError):
        logger.error("a handler of %s failed", call.path, exc_info=error)
        error = ErrorCode.UNKNOWN_SERVER_ERROR.error(f"{type(error).__name__}: {error}")
    if call.api.key == PRODUCE and getattr(call.message, "acks", -1) == 0:  # nobody waits for an answer (PR-7)
        call.hang_up(f"a produce with acks=0 failed: {error}")
        return
    call.answer(refused(call.api, call.version, call.message, error))


def encoded(call: Call, response: Any) -> list[Buffer]:
    """Return the pieces of an answer, without its size and number."""
    if isinstance(response, bytes):
        return [response]
    return answer_body(call.api.key, call.version, response)
