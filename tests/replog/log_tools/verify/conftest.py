"""One log directory, written once and copied for each test."""

import shutil
from pathlib import Path

import pytest

from tests.replog.log_tools.verify.directories import FLIGHTS, write_log_directory


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("template") / "data"
    write_log_directory(directory)
    return directory


@pytest.fixture
def data(template: Path, tmp_path: Path) -> Path:
    """A log directory whose broker stopped in order."""
    return shutil.copytree(template, tmp_path / "data")


@pytest.fixture
def flights(data: Path) -> Path:
    """The partition in it."""
    return data / FLIGHTS.directory_name
