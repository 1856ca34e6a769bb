"""Deletions that a watcher may not know yet. Pure."""

from collections.abc import Mapping
from itertools import islice, takewhile

from replog.metadata.changes import Change


class Tombstones:
    """A deletion stays until a `collected` change says that all watchers know it, or its key is set again."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}  # by key, oldest first

    def put(self, change: Change) -> None:
        """Changes come in version order."""
        if self._versions:
            self._versions.pop(change.key, None)
        if change.kind == "collected":
            for key in self.up_to(change.value):
                del self._versions[key]
        elif change.value is None:
            self._versions[change.key] = change.version

    def up_to(self, version: int, limit: int | None = None) -> Mapping[str, int]:
        """The oldest deletions up to that version, each with its key and version, oldest first."""
        return dict(islice(takewhile(lambda item: item[1] <= version, self._versions.items()), limit))
