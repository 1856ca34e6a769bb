"""The console's pages. Nothing here changes anything."""

from collections.abc import Awaitable, Callable, Set
from importlib.resources import files

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from replog.common.addresses import number_in
from replog.console.events import Events
from replog.console.guard import Guard
from replog.console.watcher import Watcher
from replog.topic import TopicPartition

MAX_VIEWERS = 100
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def console_app(watcher: Watcher, hosts: Set[str] | None) -> ASGIApp:
    """Return the console's app. `hosts` goes to `Guard`."""
    routes = [Route("/events", _Viewers(watcher), methods=["GET"]), Route("/partition", _detail_of(watcher))]
    for path in files("replog.console.assets").iterdir():
        name, dot, suffix = path.name.rpartition(".")
        if dot + suffix in _TYPES:
            page = _asset(path.read_bytes(), _TYPES[dot + suffix])
            routes.append(Route("/" if name == "index" else f"/{path.name}", page))
    return Starlette(routes=routes, middleware=[Middleware(Guard, hosts=hosts)])


class _Viewers:
    """Opens streams of events, at most `MAX_VIEWERS` at a time."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._count >= MAX_VIEWERS:
            refused = PlainTextResponse(f"{MAX_VIEWERS} are looking already; close one of these pages\n", 503)
            await refused(scope, receive, send)
            return
        self._count += 1
        try:
            await Events(self._watcher)(scope, receive, send)
        finally:
            self._count -= 1


def _asset(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def asset(_: Request) -> Response:
        return Response(content, media_type=media_type)

    return asset


def _detail_of(watcher: Watcher) -> Callable[[Request], Awaitable[Response]]:
    async def detail(request: Request) -> Response:
        partition = number_in(request.query_params.get("partition", ""))
        if partition is None:
            return PlainTextResponse("partition is a number\n", 400)
        told = watcher.board.detail(TopicPartition(request.query_params.get("topic", ""), partition))
        return JSONResponse(told) if told is not None else PlainTextResponse("there is no such partition\n", 404)

    return detail
