"""Where tests of the log write."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory on a file system in memory, if there is one: thousands of repairs are fsynced there."""
    with TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        yield Path(name) / "t-0"
