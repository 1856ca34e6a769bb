"""Bytes that nobody meant: every parser answers with a typed error or a right read, and soon.

`REPLOG_SOAK=<examples>` tries that many for each, by chance (`make fuzz`).
"""

import time

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
