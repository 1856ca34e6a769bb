"""Which seed catches which wrong variant: `python -m tests.replog.simulator.catch [--seeds 500] [NAME …]`.

A seed catches one if it fails with it, not by a mere exception, and passes without it.
"""

import argparse
import os
import re
import sys
import time
from pathlib import Path

from replog.simulator.profiles import PROFILES
from replog.simulator.runner import run_seeds
from replog.simulator.simulation import SeedOutcome
from tests.replog.simulator.variants import VARIANTS, Variant


def catch(variant: Variant, seeds: int, first_seed: int = 1, jobs: int = 2) -> tuple[SeedOutcome | None, int]:
    """The first outcome that shows that the variant is wrong, and how many seeds were run until then."""
    outcomes = run_seeds(range(first_seed, first_seed + seeds), PROFILES[variant.profile], jobs=jobs)
    tried = 0
    try:
        while True:
            with variant.applied():  # children are forked in here
                outcome = next(outcomes, None)
            if outcome is None:
                return None, tried
            tried += 1
            if not outcome.failed:
                continue
            if outcome.invariant == "defect" and not variant.raises:
                print(f"    seed {outcome.seed} does not count: {evidence(outcome)}", flush=True)
            elif fails_without(outcome):
                print(f"    seed {outcome.seed} fails without {variant.name}, too: {evidence(outcome)}", flush=True)
            else:
                return outcome, tried
    finally:
        outcomes.close()


def fails_without(outcome: SeedOutcome) -> bool:
    return any(same.failed for same in run_seeds([outcome.seed], PROFILES[outcome.profile]))


def evidence(outcome: SeedOutcome) -> str:
    """What was seen, in a line; of an exception its last one."""
    lines = [line.strip() for line in outcome.text.splitlines() if line.strip()]
    if outcome.invariant == "defect":
        lines = [
            line for line in lines if re.match(r"[\w.]*(Error|Exception|Violation|Stuck|broker-\d)\b", line)
        ] or lines
        return lines[-1][:300]
    return lines[0][:300]


def write_report(path: Path, variant: Variant, caught: SeedOutcome | None, tried: int) -> None:
    """Put what was found into the variant's line of `path`."""
    seed = f"{caught.seed} ({caught.invariant})" if caught else f"none of {tried}"
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        if line.startswith(f"{variant.name} | "):
            lines[number] = " | ".join([*line.split(" | ")[:3], variant.profile, seed, str(tried)])
    path.write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *VARIANTS], metavar="NAME")
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--report", type=Path, help="variants.txt, whose lines get the results")
    arguments = parser.parse_args()
    missed = 0
    for name in arguments.names or VARIANTS:
        started = time.monotonic()
        caught, tried = catch(VARIANTS[name], arguments.seeds, jobs=arguments.jobs)
        missed += caught is None
        if arguments.report:
            write_report(arguments.report, VARIANTS[name], caught, tried)
        what = f"seed {caught.seed}" if caught else "NOT CAUGHT"
        print(f"{name:40} {what:12} {tried:4} seeds {time.monotonic() - started:6.1f} s", flush=True)
        if caught:
            print("   ", evidence(caught), flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
