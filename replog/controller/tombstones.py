"""Deletions that a watcher may not know yet. Pure."""

from collections.abc import Mapping
from itertools import islice, takewhile

from replog.metadata.changes import Change


class Tombstones:
    """A deletion stays until a `collected` change says that all watchers know it, or its key is set again."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}  # oldest first

    def put(self, change: Change) -> None:
        """Take in a change. Changes come in version order."""
        if self._versions:
            self._versions.pop(change.key, None)
        if change.kind == "collected":
            for key in self.up_to(change.value):
                del self._versions[key]
        elif change.value is None:
            self._versions[change.key] = change.version

    def up_to(self, version: int, limit: int | None = None) -> Mapping[str, int]:
        """Return the keys and versions of deletions up to `version`, oldest first, at most `limit`."""
        return dict(islice(takewhile(lambda item: item[1] <= version, self._versions.items()), limit))
