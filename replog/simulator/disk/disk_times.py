"""The time that a simulated disk takes for each operation: drawn from the seed, around what a usual disk takes.

On a process's loop an operation delays the process's further callbacks, while other processes go on. In a thread it
delays only the thread."""

import errno
import os

from replog.simulator.runtime.loop import SimulatedLoop
from replog.simulator.runtime.process import SimulatedProcess
from replog.simulator.runtime.rng import Rng, Streams

FSYNC_S, NAME_S, CACHE_S = 0.002, 0.00005, 0.00001  # an fsync; a change of a name; a read or write of memory
COLD_S, COLD = 0.005, 0.5  # a read from the device, and the share of reads that need one on a slow or stalled disk
BYTES_A_SECOND = 1e9  # the rate of reads and writes in memory
OFTEN_SLOW, SLOW_S = 0.02, 0.03  # the share of fsyncs that wait for others' work, and how much longer they may take
_USUAL_S = {
    "fsync": FSYNC_S,
    "write": CACHE_S,
    "read": CACHE_S,
    "open": CACHE_S,
    "cold read": COLD_S,
}  # all others change a name or a size
_IN_MEMORY = frozenset({"write", "read", "open"})  # a stalled disk does not delay these


class DiskTimes:
    """The times of all hosts' disks. A slow disk multiplies every time; a stalled one completes nothing for a while."""

    def __init__(self, loop: SimulatedLoop, rng: Rng) -> None:
        self._loop = loop
        self._takes = Streams(rng, "how long the disk")
        self._forgets = Streams(rng, "what is not in the memory")
        self._cold: set[tuple[str, int]] = set()  # paths and positions of reads that did not wait for the device
        self._slow: dict[str, float] = {}
        self._stalled: dict[str, float] = {}
        self._holds_up: dict[str, float] = {}  # the end of what began on each bad disk, which a repair does not move

    def slow(self, host: str, factor: float) -> None:
        self._slow[host] = factor

    def stall(self, host: str, until_s: float) -> None:
        self._stalled[host] = max(until_s, self._stalled.get(host, 0.0))
        self._holds_up[host] = max(until_s, self._holds_up.get(host, 0.0))

    def heal(self, host: str) -> None:
        self._slow.pop(host, None)
        self._stalled.pop(host, None)

    def sound(self, host: str) -> bool:
        return host not in self._slow and self._stalled.get(host, 0.0) <= self._loop.time()

    def holds_up(self, host: str) -> bool:
        """Return True if an operation that began before the repair may still wait for its end."""
        return self._holds_up.get(host, 0.0) > self._loop.time()

    def read(self, process: SimulatedProcess, path: str, position: int, size: int, *, waits: bool) -> None:
        """Spend the time of a read. Raises BlockingIOError if it needs the device, unless it `waits`."""
        if not waits and not self.sound(process.name) and self._forgets[process.name].random() < COLD:
            self._cold.add((path, position))
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        cold = (path, position) in self._cold
        self._cold.discard((path, position))
        self.take(process, "cold read" if cold else "read", size)

    def take(self, process: SimulatedProcess, kind: str, size: int = 0) -> None:
        """Let the running process spend the time of this operation."""
        usual_s = _USUAL_S.get(kind, NAME_S) + size / BYTES_A_SECOND
        host = process.name
        draw = self._takes[host].random
        seconds = 2 * usual_s * draw()
        if kind == "fsync" and draw() < OFTEN_SLOW:
            seconds += draw() * SLOW_S
        if host in self._slow:
            seconds *= self._slow[host]
        if host in self._stalled and kind not in _IN_MEMORY:
            seconds += max(0.0, self._stalled[host] - self._loop.time())
        self._loop.spend(kind, seconds, usual_s)
        if host in self._slow:
            self._holds_up[host] = max(self._holds_up.get(host, 0.0), self._loop.time())
