"""The models with more troubles, as far as there is time: `python -m tests.replog.models.night [NAME …]`."""

import argparse
import logging
import sys

import structlog

from tests.replog.models.explore import explore
from tests.replog.models.models import NIGHTLY


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *NIGHTLY], metavar="NAME")
    parser.add_argument("--seconds", type=float, default=300, help="of CPU, for each")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    failed = 0
    for name in arguments.names or NIGHTLY:
        done = explore(NIGHTLY[name], cpu_s=arguments.seconds)
        print(f"{name:12} {done}", flush=True)
        if done.violation is not None:
            failed += 1
            print(done.story, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
