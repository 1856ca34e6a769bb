"""A viewer that takes nothing of what it is sent."""

import asyncio

from replog.client.admin import Admin
from replog.console import app
from replog.console.app import Events
from replog.console.board import Board
from replog.console.watcher import Watcher


async def test_a_viewer_that_takes_nothing_holds_nobody_up_and_is_dropped(monkeypatch):
    monkeypatch.setattr(app, "SEND_S", 0.05)
    never = asyncio.Event()

    async def silent(*_: object) -> None:
        await never.wait()

    async with Admin("127.0.0.1:1") as admin, asyncio.timeout(30):
        watcher = Watcher(admin, Board(), None)
        await Events(watcher)({}, silent, _takes_the_headers_alone(silent))


def _takes_the_headers_alone(silent):
    async def send(message):
        if message["type"] != "http.response.start":
            await silent()

    return send
