"""A wait with a deadline."""

import time
from collections.abc import Callable


def until(done: Callable[[], bool], what: str | Callable[[], object], timeout_s: float = 300.0) -> None:
    """Raises AssertionError with `what` was waited for, or with what it is instead."""
    deadline = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what if isinstance(what, str) else what()}"
        time.sleep(0.02)
