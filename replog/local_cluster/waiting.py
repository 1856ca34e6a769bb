"""Waits for a cluster, as long as there is progress."""

import time
from collections.abc import Callable

from replog.errors import ErrorCode

PATIENCE_S = 60.0  # the longest time without any progress
TELL_S = 5.0  # the time between two lines about a long wait
POLL_S = 0.1  # the pause between two looks; as long as a look if that took longer, since it takes CPU

Progress = Callable[[str], None]


def wait_for(
    missing: Callable[[], str], failure: str, patience_s: float = PATIENCE_S, progress: Progress = lambda _: None
) -> None:
    """Wait until nothing is missing. Raises REQUEST_TIMED_OUT once `missing` returned nothing new for `patience_s`."""
    said = set[str]()
    told_at = moved_at = asked_at = time.monotonic()
    while reason := missing():
        now = time.monotonic()
        if reason not in said:
            said.add(reason)
            moved_at = now
        if now >= moved_at + patience_s:
            raise ErrorCode.REQUEST_TIMED_OUT.error(f"{failure}: {reason}, and no progress in {patience_s:g} s")
        if now >= told_at + TELL_S:
            progress(f"waiting: {reason}")
            told_at = now
        time.sleep(max(POLL_S, now - asked_at))
        asked_at = time.monotonic()
