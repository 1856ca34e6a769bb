"""The room on the file systems of a process's directories."""

import asyncio
import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric

from replog.server.metrics.families import labelled

ANSWER_S = 1.0  # how long all disks together may take

Usages = list[tuple[Path, int, int]]  # directory, total and free bytes of its file system


class Room:
    """Asks in one thread at a time, otherwise a disk that hangs would take thread after thread."""

    def __init__(self) -> None:
        self._asking: asyncio.Task[Usages] | None = None

    async def families(self, directories: Sequence[Path]) -> list[Metric]:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(asyncio.to_thread(_usages, directories), name="room on disks")
        await asyncio.wait({self._asking}, timeout=ANSWER_S)
        told = self._asking.result() if self._asking.done() else []
        free, size = {directory: free for directory, _, free in told}, {directory: size for directory, size, _ in told}
        text = "Room for what the process keeps there"
        return [
            labelled(GaugeMetricFamily, "replog_directory_free_bytes", text, "directory", free),
            labelled(GaugeMetricFamily, "replog_directory_size_bytes", "Of the file system there", "directory", size),
        ]


def _usages(directories: Sequence[Path]) -> Usages:
    """Return the room on disks, without those that fail. It waits for them."""
    usages = []
    for directory in directories:
        with contextlib.suppress(OSError):
            usage = shutil.disk_usage(directory)
            usages.append((directory, usage.total, usage.free))
    return usages
