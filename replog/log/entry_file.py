"""What the indexes of a segment share: a file of fixed-size big-endian entries in use order, without header (IX-1)."""

import os
from pathlib import Path
from struct import Struct
from typing import ClassVar

from replog.log.errors import CorruptIndex


class EntryFile:
    """Counts the entries that the file has, none if it is missing; it is opened when first used (IX-2, IX-8)."""

    layout: ClassVar[Struct]

    def __init__(self, path: Path, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.missing = False
        try:
            length = os.stat(path).st_size
        except FileNotFoundError:
            length, self.missing = 0, True
        self.count, self.surplus = divmod(length, self.layout.size)
        self._fd = -1

    def check_whole(self) -> None:
        """Raise CorruptIndex unless whole entries fill the file."""
        if self.surplus:
            raise CorruptIndex(f"{self.path} has {self.surplus} bytes after its last whole entry")

    def close(self) -> None:
        """Let go of the file; whoever wants an entry opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> int:
        """The open file, created if it was missing."""
        if self._fd < 0:
            self.missing = False
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return self._fd
