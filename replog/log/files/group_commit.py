"""Work on the files of many logs: all are written first, then waited for. Very many share one wait for their file
system."""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from replog.errors import ReplogError
from replog.log.files import filesystem

MANY = 300  # so many logs make one wait cheaper, though it may be seconds for other programs' writes

K = TypeVar("K")
T = TypeVar("T")


class GroupCommit(Generic[K]):
    """Takes steps for each of many things. A thing for which a step fails is left out of the later ones."""

    def __init__(self, things: Iterable[K]) -> None:
        self._left = dict.fromkeys(things)
        self.failures: dict[K, ReplogError] = {}

    def each(self, step: Callable[[K], T]) -> dict[K, T]:
        done: dict[K, T] = {}
        for _ in self.steps(step, done):
            pass
        return done

    def steps(self, step: Callable[[K], T], done: dict[K, T]) -> Iterator[None]:
        """Take the step for one thing after the other, as `each`."""
        for thing in list(self._left):
            try:
                done[thing] = step(thing)
            except ReplogError as error:
                self.failures[thing] = error
                del self._left[thing]
            yield

    def are_durable(self, fd: int) -> bool:
        """Make everything that was written durable at once, if there are at least MANY things, on the file system of
        `fd`. False if each of them still needs its fsyncs."""
        return len(self._left) >= MANY and filesystem.sync_filesystem(fd)
