"""A file on a disk that hangs."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest


class Hanging:
    """To open `path` gives a descriptor, and waits until `go_on`."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_opened, self._released = threading.Event(), threading.Event()
        open_now = os.open

        def open_slowly(at: Any, *arguments: Any, **options: Any) -> int:
            fd = open_now(at, *arguments, **options)
            if str(at) == str(path):
                self.is_opened.set()
                assert self._released.wait(60)
            return fd

        monkeypatch.setattr(os, "open", open_slowly)

    def go_on(self) -> None:
        self._released.set()
