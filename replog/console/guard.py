"""The console answers its own pages only, under its own name, and tells browsers to keep to that."""

from collections.abc import Set

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
