"""Small inputs that announce much are answered in little memory and time."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(sys.platform != "linux", reason="limits its memory by what /proc says")
def test_no_input_takes_much_more_than_it_is():
    """A process that may take 1 GiB more than it has: bombs of every codec; lengths, counts, varints of 2^31 and up."""
    command = [sys.executable, "-m", "tests.replog.fuzz.attacks"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" attacks\n")
    assert done.stdout.count("\n") == 1, done.stdout
