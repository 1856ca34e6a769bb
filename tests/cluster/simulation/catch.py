"""Which seed catches which wrong variant: `python -m tests.cluster.simulation.catch [--seeds 500] [NAME …]`."""

import argparse
import os
import re
import sys
import time
from pathlib import Path

from cluster.simulation.profiles import PROFILES
from cluster.simulation.runner import run_seeds
from cluster.simulation.simulation import Outcome
from tests.cluster.simulation.variants import VARIANTS
from tests.cluster.simulation.variants.variant import Variant

BEGIN, END = "<!-- wrong variants and the seeds that catch them -->", "<!-- end of variants -->"


def catch(variant: Variant, seeds: int, first_seed: int = 1, jobs: int = 2) -> tuple[Outcome | None, int]:
    """The first outcome that fails, and how many seeds were run until then."""
    tried = 0
    with variant.applied():
        for outcome in run_seeds(range(first_seed, first_seed + seeds), PROFILES[variant.profile], jobs=jobs):
            tried += 1
            if outcome.failed:
                return outcome, tried
    return None, tried


def row(variant: Variant, caught: Outcome | None, tried: int) -> str:
    found = f"{caught.seed} ({caught.invariant})" if caught else f"**none of {tried}**"
    return f"| `{variant.name}` | {variant.wrong} | {variant.of} | `{variant.profile}` | {found} | {tried} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *VARIANTS], metavar="NAME")
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--report", type=Path, help="a Markdown file whose marked table is replaced")
    arguments = parser.parse_args()
    rows = []
    missed = 0
    for name in arguments.names or VARIANTS:
        started = time.monotonic()
        caught, tried = catch(VARIANTS[name], arguments.seeds, jobs=arguments.jobs)
        missed += caught is None
        rows.append(row(VARIANTS[name], caught, tried))
        what = f"seed {caught.seed}: {caught.invariant}" if caught else "NOT CAUGHT"
        print(f"{name:40} {what:30} {tried:4} seeds {time.monotonic() - started:6.1f} s", flush=True)
        if caught:
            print("   ", caught.text.splitlines()[0][:200], flush=True)
    if arguments.report:
        table = ["| variant | what is wrong | breaks | profile | caught by seed | tried |", "|---|---|---|---|---|---|"]
        figures = "\n".join([BEGIN, *table, *rows, END])
        text = arguments.report.read_text()
        pattern = f"{re.escape(BEGIN)}.*?{re.escape(END)}"
        arguments.report.write_text(re.sub(pattern, lambda _: figures, text, flags=re.DOTALL))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
