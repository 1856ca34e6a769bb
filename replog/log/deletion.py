"""Files that wait for their deletion: renamed to `.deleted` at once, removed after a delay (LG-15)."""

import os
from collections.abc import Iterable
from pathlib import Path

from replog.log.files import DELETED_SUFFIX


class DeletedFiles:
    """The delay gives whoever has such a file open the time to finish."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Path, int | None]] = []

    def set_aside(self, paths: Iterable[Path]) -> None:
        """Rename each to `.deleted`; those that do not exist are skipped."""
        for path in paths:
            target = path.with_name(path.name + DELETED_SUFFIX)
            try:
                os.replace(path, target)
            except FileNotFoundError:
                continue
            self._waiting.append((target, None))

    def renamed(self, directory: Path) -> None:
        """Their directory has this name from now on."""
        self._waiting = [(directory / path.name, since) for path, since in self._waiting]

    def delete_expired(self, now_ms: int, delay_ms: int) -> int:
        """Remove those set aside at least `delay_ms` before, counted from the first call that saw them; how many."""
        waiting: list[tuple[Path, int | None]] = []
        removed = 0
        for path, since in self._waiting:
            if since is None or now_ms - since < delay_ms:
                waiting.append((path, now_ms if since is None else since))
            else:
                path.unlink(missing_ok=True)
                removed += 1
        self._waiting = waiting
        return removed
