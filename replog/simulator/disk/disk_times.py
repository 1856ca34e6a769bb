"""How long a simulated disk takes for what it is asked: drawn from the seed, around what a usual disk takes.

On a process's loop that makes the process busy: its further callbacks run only after it, while other processes go on.
In a thread it keeps only the thread.
"""

import errno
import os

from replog.simulator.runtime.chance import Chance, Streams
from replog.simulator.runtime.loop import SimulatedLoop
from replog.simulator.runtime.process import SimulatedProcess

FSYNC_S, NAME_S, CACHE_S = 0.002, 0.00005, 0.00001  # waits for the device; changes a name; from memory or into it
COLD_S, COLD = 0.005, 0.5  # from the device; so many reads have to, while a disk is slow or stalled
BYTES_A_SECOND = 1e9  # to be read or written in memory
OFTEN_SLOW, SLOW_S = 0.02, 0.03  # so many fsyncs meet others' work, and take up to so much longer
_USUAL_S = {
    "fsync": FSYNC_S,
    "write": CACHE_S,
    "read": CACHE_S,
    "open": CACHE_S,
    "cold read": COLD_S,
}  # all others change a name or a size
_IN_MEMORY = frozenset({"write", "read", "open"})  # a disk that stalls does not hold these up


class DiskTimes:
    """Of all hosts. A slow disk takes many times as long for everything; a stalled one completes nothing until then."""

    def __init__(self, loop: SimulatedLoop, chance: Chance) -> None:
        self._loop = loop
        self._takes = Streams(chance, "how long the disk")
        self._forgets = Streams(chance, "what is not in the memory")
        self._cold: set[tuple[str, int]] = set()  # where somebody did not wait
        self._slow: dict[str, float] = {}
        self._stalled: dict[str, float] = {}
        self._holds_up: dict[str, float] = {}  # until when what began during a stall waits, healed or not

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
        """Whether something that began during a stall may still wait for its end."""
        return self._holds_up.get(host, 0.0) > self._loop.time()

    def read(self, process: SimulatedProcess, path: str, position: int, size: int, *, waits: bool) -> None:
        """Some of what is read is not in memory: BlockingIOError, unless it `waits`."""
        if not waits and not self.sound(process.name) and self._forgets[process.name].random() < COLD:
            self._cold.add((path, position))
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        cold = (path, position) in self._cold
        self._cold.discard((path, position))
        self.take(process, "cold read" if cold else "read", size)

    def take(self, process: SimulatedProcess, kind: str, size: int = 0) -> None:
        """The process spends as long as this operation takes."""
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
