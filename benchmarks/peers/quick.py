"""Compares replog with raw sockets in a minute: has a ratio dropped by a fifth since `make bench` stored it?

Run it with `make bench-quick`, which fails then. Both write into memory if there is a tmpfs, otherwise requests of
1 MiB are as fast as the disk at that moment, which varied by a factor of four.
"""

import json
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks.peers.ratios import GUARDED_ROWS, MAX_DROP, dropped, guarded
from benchmarks.peers.raw import RawPeer
from benchmarks.peers.replog import ReplogPeer
from benchmarks.peers.side_by_side import rounds_of
from benchmarks.report import benchmark_parser, publish, table

STORED = Path(__file__).parents[1] / "results" / "quick.json"
MEMORY = Path("/dev/shm")


def main() -> int:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--stored", type=Path, default=STORED, help="what to compare with")
    parser.add_argument("--store", action="store_true", help="write the --stored file instead of comparing with it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row, about")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # otherwise nothing is cleaned up
    if not options.store and not options.stored.exists():
        parser.error(f"{options.stored} is not there to compare with: make it with --store, as `make bench` does")
    if MEMORY.is_dir():
        tempfile.tempdir = str(MEMORY)
    note = partial(Console(stderr=True).print, highlight=False, soft_wrap=True)
    report, _ = rounds_of({ReplogPeer: GUARDED_ROWS, RawPeer: GUARDED_ROWS}, options.rounds, options.seconds, note)
    now = guarded(report)
    if options.store:
        options.json = options.stored
    stored = now if options.store else json.loads(options.stored.read_text())["ratios"]
    rows = [[name, f"{stored[name]:.3f}", f"{ratio:.3f}", f"{ratio / stored[name]:.2f}"] for name, ratio in now.items()]
    shown = table(["larger is better", "stored", "now", "now / stored"], rows)
    publish("peers.quick", shown, {"ratios": now, "rounds": report}, options)
    if worse := dropped(now, stored):
        note(f"Dropped by more than {MAX_DROP:.0%}: {'; '.join(worse)}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
