"""Files that wait for their deletion: renamed to `.deleted` at once, removed after a delay (LG-15)."""

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from replog.log.errors import LogStorageError, is_of_the_disk, storage_errors
from replog.log.files.names import DELETED_SUFFIX
from replog.log.files.open_files import with_room


class DeletedFiles:
    """Files under `.deleted` names. The delay gives their readers the time to finish."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Path, int | None]] = []

    def __len__(self) -> int:
        return len(self._waiting)

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
        self._waiting = [(directory / path.name, since) for path, since in self._waiting]

    def take_expired(self, now_ms: int, delay_ms: int) -> list[Path]:
        """Take out the files whose delay has passed, for `remove`. The delay begins with the first call. `now_ms` is
        monotonic."""
        if not self._waiting:
            return []
        self._waiting = [(path, now_ms if since is None else since) for path, since in self._waiting]
        last = now_ms - delay_ms
        expired = [path for path, since in self._waiting if since is not None and since <= last]
        self._waiting = [waiting for waiting in self._waiting if waiting[1] is None or waiting[1] > last]
        return expired


def remove(paths: Iterable[Path], left: dict[Path, str] | None = None, links: dict[Path, str] | None = None) -> int:
    """Remove files, and directories with all their content, and return how many. It takes long; any thread may do it.

    A symbolic link is removed, and its target stays, as in Kafka: `links` gets both. `left` gets what is still there,
    and the reason: others may change things meanwhile. Raises LogStorageError for a failed disk, TooManyOpenFiles."""
    removed = 0
    for path in paths:
        why = "its files come and go"
        try:
            with storage_errors(path), suppress(FileNotFoundError):  # another process may have removed a part
                if path.is_dir() and not path.is_symlink():
                    with_room(path, partial(shutil.rmtree, path))
                else:
                    if links is not None and path.is_symlink():
                        links[path] = os.readlink(path)
                    path.unlink()
        except LogStorageError as error:
            if is_of_the_disk(error):
                raise
            why = error.message
        if not os.path.lexists(path):
            removed += 1
        elif left is not None:
            left[path] = why
    return removed
