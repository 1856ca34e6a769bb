"""The console's pages, who may look at them, and the stream of events. Nothing here changes anything."""

import asyncio
from collections.abc import Awaitable, Callable, Set
from importlib.resources import files

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from replog.config.properties import number_in
from replog.console.watcher import Watcher
from replog.topic import TopicPartition

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})
ALIVE_S = 10.0  # a sign of life if there is no news
SEND_S = 20.0  # a browser that takes nothing for so long is dropped; it comes back by itself
RETRY_MS = 2000
MAX_VIEWERS = 100
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Guard:
    """Refuses another site whose name points here (DNS rebinding), or whose page has a browser ask. `hosts`: the
    console's names; None: its certificate has them."""

    def __init__(self, app: ASGIApp, hosts: Set[str] | None) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._refusal(Headers(scope=scope))
        app = PlainTextResponse(refusal, 403) if refusal else self._app
        await app(scope, receive, guarded)

    def _refusal(self, headers: Headers) -> str:
        host = headers.get("host", "").lower()
        host = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
        if self._hosts is not None and host not in self._hosts:
            return f"this console is not {host[:100]!r}; open it as one of {', '.join(sorted(self._hosts))}\n"
        asked_by = headers.get("sec-fetch-site", "none")
        if asked_by not in ("none", "same-origin") and headers.get("sec-fetch-mode") != "navigate":
            return "this console answers its own page only\n"
        return ""


class Events:
    """The stream of events, for `MAX_VIEWERS` at a time. It writes when the browser has taken the event before, so
    nothing is queued here."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._watcher.viewers >= MAX_VIEWERS:
            refused = PlainTextResponse(f"{MAX_VIEWERS} are looking already; close one of these pages\n", 503)
            await refused(scope, receive, send)
            return
        left = asyncio.create_task(_left(receive))
        sending = asyncio.create_task(self._send(send))
        self._watcher.come()
        try:
            await asyncio.wait({left, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._watcher.go()
            left.cancel()
            sending.cancel()
            await asyncio.gather(left, sending, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        heard, text = 0, f"retry: {RETRY_MS}\n\n"
        while True:
            async with asyncio.timeout(SEND_S):
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
            ticked, board = self._watcher.ticked, self._watcher.board
            if board.tick == heard:
                try:
                    async with asyncio.timeout(ALIVE_S):
                        await ticked.wait()
                except TimeoutError:
                    text = "event: alive\ndata: \n\n"
                    continue
            text, heard = f"data: {board.since(heard)}\n\n", board.tick


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def console_app(watcher: Watcher, hosts: Set[str] | None) -> ASGIApp:
    """Return the console's app. `hosts` goes to `Guard`."""
    routes = [Route("/events", Events(watcher), methods=["GET"]), Route("/partition", _detail_of(watcher))]
    for path in (*files("replog.console.assets").iterdir(), files("replog.command") / "page.css"):
        name, dot, suffix = path.name.rpartition(".")
        if dot + suffix in _TYPES:
            page = _asset(path.read_bytes(), _TYPES[dot + suffix])
            routes.append(Route("/" if name == "index" else f"/{path.name}", page))
    return Starlette(routes=routes, middleware=[Middleware(Guard, hosts=hosts)])


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
