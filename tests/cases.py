"""Which random cases Hypothesis draws: the same ones every time, or others by chance with REPLOG_SOAK (`make fuzz`).

The same ones means: whatever this worker has imported before, and however busy the machine is. By itself Hypothesis
mixes in the constants of all local modules that it finds loaded, so a case depends on which tests ran before.
"""

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

SOAK = int(os.environ.get("REPLOG_SOAK") or 0)  # how many cases of each kind


def _no_constants() -> providers.Constants:
    return providers.Constants()


def load_profile() -> None:
    """Set what every test inherits that says nothing else. No case has a deadline: a busy machine is no defect."""
    by_chance = bool(SOAK)
    settings.register_profile(
        "replog",
        deadline=None,
        derandomize=not by_chance,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
    )
    settings.load_profile("replog")
    if not by_chance:
        providers._get_local_constants = _no_constants
