"""The samples, written once, and where their copies are damaged."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.damage.samples import write_log


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory on a file system in memory, if there is one: thousands of repairs are fsynced there."""
    with TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        yield Path(name) / "t-0"


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The plain sample."""
    return write_log(tmp_path_factory.mktemp("whole") / "t-0")
