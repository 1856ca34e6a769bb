"""The stream of server-sent events of one viewer: everything, then what is new with each tick."""

import asyncio

from starlette.types import Receive, Scope, Send

from replog.console.watcher import Watcher

ALIVE_S = 10.0  # a sign of life if there is no news
SEND_S = 20.0  # a browser that takes nothing for so long is dropped; it comes back by itself
RETRY_MS = 2000


class Events:
    """An ASGI response. It writes when the browser has taken the event before, so nothing is queued here."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
