"""Recovery: make one segment right again from its own bytes (SG-8), and rebuild the epoch cache from the batches.

Stricter than Kafka: besides the CRC it demands a sane header, offsets without holes and leader epochs that never go
back, because those bytes lie outside of the CRC.
"""

import os
from collections.abc import Iterable

from replog.log.batch import BatchHeader, validate_crc
from replog.log.epoch_cache import EpochEntry, LeaderEpochCache
from replog.log.errors import CorruptRecord
from replog.log.segment import Segment
from replog.log.validation import fault_of


def recover(segment: Segment, interval: int, epoch: int) -> int:
    """Keep the sound batches at the front, cut the rest, rebuild the indexes, fsync. Returns the bytes removed.

    `epoch` is the leader epoch of the batch before the segment, -1 if there is none. The segment is left unsealed.
    """
    end = os.fstat(segment.fd()).st_size
    sound = _sound_batches(segment, end, epoch)
    for index in segment.indexes:
        index.reset()
    segment.forget()
    for header in sound:
        segment.add(header, interval)
    segment.cut_file()
    segment.write_indexes()
    segment.flush()
    return end - segment.size
