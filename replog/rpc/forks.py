"""Keeps a process's objects from being used by its children: they have the same sockets, and nothing runs there."""

import os
from typing import Protocol
from weakref import WeakSet


class OfOneProcess(Protocol):
    def forked(self) -> None:
        """Called in a child, where this is a copy."""


_all: WeakSet[OfOneProcess] = WeakSet()
notify = _all.add


def _in_child() -> None:
    for thing in list(_all):
        thing.forked()


os.register_at_fork(after_in_child=_in_child)
