"""Bytes that nobody meant: every parser answers with a typed error or a right read, and soon.

`REPLOG_SOAK=<examples>` tries that many for each, by chance (`make fuzz`).
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings

from tests.cases import SOAK
from tests.replog.fuzz.mutations import mutated
from tests.replog.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_read(name):
    for seed in TARGETS[name].seeds():
        TARGETS[name].run(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_read_or_refused(name):
    target = TARGETS[name]

    @settings(max_examples=SOAK or 150, phases=[Phase.generate, Phase.shrink])
    @given(mutated(target.seeds()))
    def read(data: bytes) -> None:
        began = time.process_time()
        target.run(data)
        assert time.process_time() - began < 2  # seconds of CPU: these bytes are few

    read()


ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(sys.platform != "linux", reason="limits its memory by what /proc says")
def test_no_input_takes_much_more_than_it_is():
    """A process that may take 1 GiB more than it has: bombs of every codec; lengths, counts, varints of 2^31 and up."""
    command = [sys.executable, "-m", "tests.replog.fuzz.attacks"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" attacks\n")
    assert done.stdout.count("\n") == 1, done.stdout
