"""Benchmarks run small, each in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[dict[str, Any], str]]


@pytest.fixture
def run_benchmark(tmp_path: Path) -> Run:
    """Takes its module and options; returns its figures, and all that it printed."""

    def run(module: str, *options: object, timeout_s: float = 400) -> tuple[dict[str, Any], str]:
        figures = tmp_path / "figures.json"
        command = [sys.executable, "-m", f"benchmarks.{module}", "--json", str(figures), *map(str, options)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(figures.read_text()), done.stdout + done.stderr

    return run
