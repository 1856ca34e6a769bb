"""A process that is killed between two system calls: what it has written stays, what it was about to do is not done."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CHANGES = ("write", "pwrite", "pwritev", "ftruncate", "rename", "replace", "unlink", "mkdir", "rmdir")


class Killed(BaseException):
    """Nothing catches it."""


@contextmanager
def killed_after(calls: int) -> Iterator[None]:
    """Let that many system calls change files, then end whatever runs inside; it may end before by itself."""
    left = calls

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return call(*arguments, **options)

        return run

    originals = {name: getattr(os, name) for name in CHANGES}
    try:
        for name, call in originals.items():
            setattr(os, name, counted(call))
        yield
    except Killed:
        pass
    finally:
        for name, call in originals.items():
            setattr(os, name, call)
