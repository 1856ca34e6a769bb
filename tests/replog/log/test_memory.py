"""What a log costs in memory."""

import gc
import tracemalloc
from pathlib import Path

from replog.log.log import Log
from tests.replog.log.batches import client_batch, open_log
from tests.replog.log.eviction import forget_tails

LOGS = 20
MOST_BYTES = 16 << 10  # of each


def written(directory: Path) -> Log:
    """A log with more batches than it remembers, and entries in all of its indexes."""
    directory.mkdir()
    log = open_log(directory, index_interval_bytes=1000)
    for number in range(300):
        log.append_as_leader(client_batch(b"x" * 100), leader_epoch=number // 100, now_ms=number)
    return log


def test_an_active_log_costs_at_most_16_kib(tmp_path):
    """Besides the bytes of its files, which are the system's, and their tails, which all logs together have bounded."""
    written(tmp_path / "first").close()  # what all logs share is there then
    gc.collect()
    tracemalloc.start()
    try:
        logs = [written(tmp_path / str(number)) for number in range(LOGS)]
        forget_tails()
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    for log in logs:
        log.abandon()
    assert taken / LOGS < MOST_BYTES
