"""Bytes that nobody meant: every parser answers with a typed error or a right read, and soon.

`REPLOG_SOAK=<examples>` tries that many for each, by chance (`make fuzz`).
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.replog.fuzz.mutations import mutated
from tests.replog.fuzz.targets import TARGETS

SOAK = int(os.environ.get("REPLOG_SOAK") or 0)


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_read(name):
    for seed in TARGETS[name].seeds():
        TARGETS[name].run(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_read_or_refused(name):
    target = TARGETS[name]

    @settings(
        max_examples=SOAK or 150,
        deadline=2000,
        derandomize=not SOAK,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(mutated(target.seeds()))
    def read(data: bytes) -> None:
        target.run(data)

    read()
