"""The poll behind the page goes on, whatever one of its questions ends in."""

import asyncio
from pathlib import Path

from replog.client.admin import Admin
from replog.console import watcher as watching
from replog.console.board import Board
from replog.console.watcher import Watcher


async def test_a_poll_that_fails_by_a_defect_is_shown_and_the_next_one_comes(cluster, monkeypatch, tmp_path):
    await cluster.start_broker(1)
    polls = []

    def report(directory: Path) -> dict[str, str]:
        polls.append(directory)
        raise ValueError("nobody foresaw this")

    monkeypatch.setattr(watching, "audit_report", report)
    monkeypatch.setattr(watching, "POLL_S", 0.01)
    monkeypatch.setattr(watching, "DISKS_S", 0.0)
    async with Admin(cluster.brokers[1].address) as admin, asyncio.timeout(60):
        watcher = Watcher(admin, Board(), tmp_path)
        watcher.come()
        running = asyncio.create_task(watcher.run())
        while len(polls) < 2 or "nobody foresaw this" not in watcher.board.since(0):
            await asyncio.sleep(0.01)
            assert not running.done(), running.result()
        running.cancel()
