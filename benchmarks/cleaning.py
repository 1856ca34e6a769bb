"""A compacted log for `benchmarks.storage`, and one cleaning of it."""

import random
import time
from pathlib import Path

from crc32c import crc32c

from replog.client.records import BatchBuilder
from replog.config import BrokerConfig, TopicConfig
from replog.log.compaction.cleaning import Cleaning, CleanTask
from replog.log.log import Log

PER_KEY = 4  # records, about: three of four go
KEY_BYTES = 16
READ_BYTES = 1 << 20
NOW_MS = 1_700_000_000_000


def compacted(directory: Path, total: int, record_bytes: int, per_batch: int) -> Log:
    """One sealed segment of `total` bytes at least, whose records have each key of a random few."""
    log = Log.open(directory, TopicConfig(cleanup_policy="compact"), clean=True)
    chance = random.Random(1)
    keys = [chance.randbytes(KEY_BYTES) for _ in range(total // record_bytes // PER_KEY)]
    while log.size < total:
        builder = BatchBuilder(1 << 30)
        for _ in range(per_batch):
            builder.append(NOW_MS, chance.choice(keys), chance.randbytes(record_bytes - KEY_BYTES), ())
        log.append_as_leader(b"".join(builder.build()), leader_epoch=0, now_ms=NOW_MS)
    log.roll()
    log.update_high_watermark(log.log_end_offset)
    return log


def task_of(log: Log) -> CleanTask:
    map_bytes = BrokerConfig.model_fields["log_cleaner_dedupe_buffer_size"].default
    return log.cleaning_task(log.cleanable(None, NOW_MS), NOW_MS, map_bytes)


def clean(task: CleanTask) -> float:
    """Seconds of CPU. What was written is thrown away, so the next cleaning does the same."""
    begun = time.process_time()
    cleaning = Cleaning(task)
    cleaning.map_keys()
    swaps = [cleaning.rewrite(group) for group in task.groups(cleaning.end_offset)]
    seconds = time.process_time() - begun
    for swap in swaps:
        assert swap is not None, "nothing was cleaned"
        swap.cancel()
    return seconds


def read(task: CleanTask) -> float:
    """Seconds of CPU to read the same bytes and to compute their CRC."""
    begun = time.process_time()
    for source in task.sources:
        crc = 0
        with source.path.open("rb", buffering=0) as file:
            while window := file.read(READ_BYTES):
                crc = crc32c(window, crc)
    return time.process_time() - begun
