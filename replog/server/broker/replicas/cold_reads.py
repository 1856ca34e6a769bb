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
from replog.rpc.fair_queue import FairQueue
from replog.server.threads import in_thread
from replog.topic import TopicPartition

MOST = 8  # reads at once: a session that waits for one of them waits for all


_Place = tuple[FetchSession[Any], TopicPartition]


@dataclass(slots=True)
class _Disk:
    wanted: dict[_Place, ColdRead] = field(default_factory=dict)
    line: FairQueue[FetchSession[Any], _Place] = field(default_factory=FairQueue)
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self) -> dict[_Place, ColdRead]:
        """Take the next reads, one from each session in turn."""
        places = [self.line.take() for _ in range(min(MOST, len(self.line)))]
        if not self.line:
            self.wake.clear()
        return {place: self.wanted.pop(place) for place in places}


class ColdReads:
    """Reads while the broker runs. `notify` has sessions look at what was brought."""

    def __init__(self, notify: Callable[[Iterable[FetchSession[Any]]], None]) -> None:
        self._notify = notify
        self._disks: defaultdict[Path, _Disk] = defaultdict(_Disk)

    def ask(self, tp: TopicPartition, session: FetchSession[Any], cold: ColdRead) -> None:
        """Ask for a read. It replaces the session's earlier one of this partition."""
        disk = self._disks[Path(cold.path).parent.parent]
        disk.line.add(session, (session, tp))
        disk.wanted[session, tp] = cold
        disk.wake.set()

    def forget(self, tp: TopicPartition, session: FetchSession[Any]) -> None:
        for disk in self._disks.values():
            disk.line.remove(session, (session, tp))
            disk.wanted.pop((session, tp), None)

    async def run(self, disks: Iterable[Path]) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for disk in disks:
                group.create_task(self._run(self._disks[disk]))

    async def _run(self, disk: _Disk) -> None:
        while True:
            await disk.wake.wait()
            taken = disk.take()
            await in_thread(partial(_bring, list(taken.values())))
            for (session, tp), cold in taken.items():
                session.on_brought(tp, cold)
            self._notify({session: None for session, _ in taken})


def _bring(colds: Sequence[ColdRead]) -> None:
    for cold in colds:
        bring(cold)
