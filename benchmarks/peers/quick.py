"""Compares replog with raw sockets in 90 seconds: has a ratio dropped by a fifth since `make bench` stored it?

Run it with `make bench-quick`, which fails then. Both write into memory if there is a tmpfs, otherwise requests of
1 MiB are as fast as the disk at that moment, which varied by a factor of four.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import benchmark_parser, parsed, publish, table
from benchmarks.peers import rows
from benchmarks.peers.raw import RawPeer
from benchmarks.peers.replog import ReplogPeer
from benchmarks.peers.side_by_side import rounds_of

STORED = Path(__file__).parents[1] / "results" / "quick.json"
MEMORY = Path("/dev/shm")
MAX_DROP = 0.2
PACED = rows.Pace(rows.RATES[0], rows.DEFAULTS)


def guarded(report: rows.Rounds) -> dict[str, float]:
    """Return the ratios of replog and raw sockets; larger is better. Raises ValueError if a row was not measured.

    They are those of the best rounds: other work on a machine makes some rounds worse, slower code makes all worse.
    """

    def fastest(system: str) -> float:
        return max(rows.values(report[system], rows.BULK, rows.rate))

    def cheaper(row: rows.Row, pick: rows.Pick) -> float:
        return min(rows.values(report[RawPeer.name], row, pick)) / min(rows.values(report[ReplogPeer.name], row, pick))

    return {
        "requests of 1 MiB, MB/s: replog / raw sockets": fastest(ReplogPeer.name) / fastest(RawPeer.name),
        "CPU of a GB in them: raw sockets / replog": cheaper(rows.BULK, rows.cpu_per_gb),
        "p50 at 1,000 records/s: raw sockets / replog": cheaper(PACED, rows.p50),
        "CPU of a record then: raw sockets / replog": cheaper(PACED, rows.cpu_per_record),
    }


def dropped(now: dict[str, float], stored: dict[str, float]) -> list[str]:
    """Return the ratios that are more than `MAX_DROP` below the stored ones."""
    return [name for name, ratio in now.items() if ratio < stored[name] * (1 - MAX_DROP)]


def main() -> int:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--stored", type=Path, default=STORED, help="what to compare with")
    parser.add_argument("--store", action="store_true", help="write the --stored file instead of comparing with it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row, about")
    options, note = parsed(parser)
    if not options.store and not options.stored.exists():
        parser.error(f"{options.stored} is not there to compare with: make it with --store, as `make bench` does")
    if MEMORY.is_dir():
        tempfile.tempdir = str(MEMORY)
    peers: dict[rows.Kind, Sequence[rows.Row]] = dict.fromkeys((ReplogPeer, RawPeer), (rows.BULK, PACED))
    report, _ = rounds_of(peers, options.rounds, options.seconds, note)
    now = guarded(report)
    if options.store:
        options.json = options.stored
    stored = now if options.store else json.loads(options.stored.read_text())["ratios"]
    lines = [
        [name, f"{stored[name]:.3f}", f"{ratio:.3f}", f"{ratio / stored[name]:.2f}"] for name, ratio in now.items()
    ]
    shown = table(["larger is better", "stored", "now", "now / stored"], lines)
    publish("peers.quick", shown, {"ratios": now, **report}, options)
    if worse := dropped(now, stored):
        note(f"Dropped by more than {MAX_DROP:.0%}: {'; '.join(worse)}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
