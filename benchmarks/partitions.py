"""Measures thousands of partitions in replog and in Apache Kafka: three brokers, three replicas, in one run.

Systems take turns, smallest topics first; `partition_phases.py` has the phases of each cluster, docs/performance.md
explains the figures. Run it with `make bench-partitions`; Kafka's jars come from Maven Central into `~/.cache/replog`.
The largest run so far was `--only replog --partitions 10000 --limit 290`.
"""

import asyncio
import logging
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks.beside import Figures
from benchmarks.measure import precise_loop
from benchmarks.memory import fill_page_cache
from benchmarks.partition_phases import Cell
from benchmarks.partition_table import shown
from benchmarks.peers.kafka import KafkaPeer
from benchmarks.peers.peer import CannotRun
from benchmarks.peers.replog import ReplogPeer
from benchmarks.report import benchmark_parser, publish
from replog.rpc.allocator import tune_allocator

SYSTEMS = {kind.name: kind for kind in (ReplogPeer, KafkaPeer)}


def main() -> int:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--partitions", default="6,100,1000,5000", help="numbers with commas between them")
    parser.add_argument("--only", choices=SYSTEMS)
    parser.add_argument("--rounds", type=int, default=1, help="of everything; the table has medians")
    parser.add_argument("--seconds", type=float, default=10.0, help="of load that is timed")
    parser.add_argument("--idle", type=float, default=20.0, help="seconds to look at the CPU of nothing")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for a cluster")
    options = parser.parse_args()
    console = Console(stderr=True)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # otherwise it logs every broker that is killed
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # otherwise nothing is cleaned up
    tune_allocator()
    names = [options.only] if options.only else list(SYSTEMS)
    counts = [int(count) for count in options.partitions.split(",")]
    report: dict[str, dict[str, list[dict[str, Figures]]]] = {name: {str(c): [] for c in counts} for name in names}
    note = partial(console.print, highlight=False)
    # Removed only at the end, otherwise the next cluster's files would cost two to five times the CPU: ext4 looks for
    # room past every inode that was freed in the last minutes.
    with tempfile.TemporaryDirectory(prefix="replog-bench-", ignore_cleanup_errors=True) as homes:
        for number in range(options.rounds):
            for count in counts:
                for name in list(report):
                    note(f"round {number + 1} of {options.rounds}: {name}, {count} partitions")
                    try:
                        fill_page_cache(note)
                        cluster = SYSTEMS[name](Path(tempfile.mkdtemp(dir=homes)) / name)
                    except CannotRun as error:
                        note(f"Without {name}: {error}")
                        del report[name]
                        continue
                    cell = Cell(cluster, count, options.seconds, options.idle, note)
                    with asyncio.Runner(loop_factory=precise_loop) as runner:
                        report[name][str(count)].append(runner.run(cell.run(options.limit)))
    publish("partitions", shown(report), {"rounds": report}, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
