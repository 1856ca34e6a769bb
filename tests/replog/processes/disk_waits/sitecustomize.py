"""With this folder in PYTHONPATH, a process tells in its log of each wait for a disk on its event loop.

Python imports this file before all others, so everybody uses what it puts in place of these functions.
"""

import functools
import json
import os
import sys
from asyncio.events import _get_running_loop
from collections.abc import Callable, Iterator
from typing import Any

from replog.log.files import filesystem


def _callers() -> Iterator[str]:
    frame = sys._getframe(2)
    while frame is not None:
        yield f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"
        frame = frame.f_back


def _telling(wait: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(wait)
    def wait_and_tell(*arguments: Any) -> Any:
        if _get_running_loop() is not None:  # of this thread
            told = {"event": "a wait for the disk", "for": wait.__name__, "callers": [*_callers()]}
            os.write(2, f"{json.dumps(told)}\n".encode())
        return wait(*arguments)

    return wait_and_tell


for name in ("fsync", "fdatasync", "sync"):
    setattr(os, name, _telling(getattr(os, name)))
filesystem.sync_filesystem = _telling(filesystem.sync_filesystem)
