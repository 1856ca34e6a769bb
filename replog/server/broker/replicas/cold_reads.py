"""Brings bytes that fetches lack into memory: one thread for each disk, the sessions in turn (divergence 34)."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from leader.fetch_session import FetchSession
from replog.log.files.cold import ColdRead
from replog.log.files.opening import bring
from replog.server.threads import in_thread
from replog.topic import TopicPartition

MOST = 8  # reads at once: a session that waits for one of them waits for all


@dataclass(slots=True)
class _Disk:
    wanted: dict[FetchSession[Any], dict[TopicPartition, ColdRead]] = field(default_factory=dict)
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self) -> list[tuple[FetchSession[Any], TopicPartition, ColdRead]]:
        """Take the next reads, one from each session. A session that has more goes to the end of the queue."""
        taken: list[tuple[FetchSession[Any], TopicPartition, ColdRead]] = []
        while self.wanted and len(taken) < MOST:
            session, wanted = next(iter(self.wanted.items()))
            tp = next(iter(wanted))
            taken.append((session, tp, wanted.pop(tp)))
            del self.wanted[session]
            if wanted:
                self.wanted[session] = wanted
        if not self.wanted:
            self.wake.clear()
        return taken


class ColdReads:
    """Reads while the broker runs. `tell` has sessions look at what was brought."""

    def __init__(self, tell: Callable[[Iterable[FetchSession[Any]]], None]) -> None:
        self._tell = tell
        self._disks: defaultdict[Path, _Disk] = defaultdict(_Disk)

    def ask(self, tp: TopicPartition, session: FetchSession[Any], cold: ColdRead) -> None:
        """Ask for a read. It replaces the session's earlier one of this partition."""
        disk = self._disks[Path(cold.path).parent.parent]
        disk.wanted.setdefault(session, {})[tp] = cold
        disk.wake.set()

    def forget(self, tp: TopicPartition, session: FetchSession[Any]) -> None:
        for disk in self._disks.values():
            wanted = disk.wanted.get(session)
            if wanted is not None and wanted.pop(tp, None) is not None and not wanted:
                del disk.wanted[session]

    async def run(self, disks: Iterable[Path]) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for disk in disks:
                group.create_task(self._run(self._disks[disk]))

    async def _run(self, disk: _Disk) -> None:
        while True:
            await disk.wake.wait()
            taken = disk.take()
            await in_thread(partial(_bring, [cold for _, _, cold in taken]))
            for session, tp, cold in taken:
                session.on_brought(tp, cold)
            self._tell({session: None for session, _, _ in taken})


def _bring(colds: Sequence[ColdRead]) -> None:
    for cold in colds:
        bring(cold)
