"""What is noted of records in the first pass says in the second what the map would have said (CL-3, CL-5)."""

import random
from pathlib import Path

import pytest

from replog.log.compaction import cleaning as cleaning_module
from replog.log.compaction.rewriting import GONE, LATEST, Fates, OffsetMap
from replog.log.formats.batch import parse_header
from replog.log.log import Log
from tests.replog.fuzz.targets import with_crc
from tests.replog.log.batches import append, client_batch, leader_batch, open_log
from tests.replog.log.compaction.compacting import (
    T,
    batches_of,
    clean,
    compacted,
    keyed,
    offsets_of,
    records_of,
    sealed,
)

KEYS = [b"%d" % number for number in range(40)]


def _history(directory: Path, seed: int) -> Log:
    rng = random.Random(seed)
    log = compacted(directory, segment_bytes=2000, delete_retention_ms=1000)
    for _ in range(60):
        values = [
            (rng.choice(KEYS), None if rng.random() < 0.2 else rng.randbytes(20)) for _ in range(rng.randint(1, 5))
        ]
        append(log, client_batch(*values, timestamps=[T] * len(values), codec=rng.randrange(5)))
    log.roll()
    log.update_high_watermark(log.log_end_offset)
    return log


def _cleaned(directory: Path, seed: int) -> list[object]:
    """What is left after cleanings of a part and of all, before and after tombstones may go."""
    log = _history(directory, seed)
    for now_ms, checkpoint in ((T, 0), (T, log.log_end_offset // 2), (T + 5000, 0)):
        clean(log, now_ms, checkpoint=checkpoint, map_bytes=1 << 16)
    headers = [header._replace(length=0, crc=0) for header, _ in batches_of(log)]  # a client's gzip has the time in it
    return [headers, records_of(log)]


@pytest.mark.parametrize("noted", [0, 20, 100], ids="{} offsets noted".format)
@pytest.mark.parametrize("seed", range(6))
def test_a_log_is_cleaned_the_same_with_fates_and_without(tmp_path, seed, noted, monkeypatch):
    all_noted = _cleaned(tmp_path / "noted-0", seed)
    monkeypatch.setattr(cleaning_module, "NOTED_PART", (1 << 16) // noted if noted else 1 << 40)
    assert _cleaned(tmp_path / "looked-up-0", seed) == all_noted


def test_what_was_noted_is_not_looked_up(tmp_path, monkeypatch):
    log = sealed(compacted(tmp_path), keyed("a", "b"), keyed("a", "c"), keyed("b", "c"))

    def looked_up(_keys: OffsetMap, key: bytes) -> int:
        raise AssertionError(key)

    monkeypatch.setattr(OffsetMap, "get", looked_up)
    clean(log)
    assert offsets_of(log) == [2, 4, 5]


def test_a_batch_whose_records_are_not_in_order_is_looked_up(tmp_path):
    """Kafka's own are in order, and leaders see to it; but what is noted by offset would be read by place."""
    batch = bytearray(client_batch((b"a", b"1"), (b"b", b"2")))
    first, second = 61 + 3, 61 + 9 + 3  # the offset deltas: behind a record's length, attributes and timestamp
    assert (batch[first], batch[second]) == (0, 2)
    batch[first], batch[second] = 2, 0
    log = append(open_log(tmp_path), with_crc(bytes(batch)))
    log.close()
    log = sealed(compacted(tmp_path, high_watermark=2), keyed("b"))
    clean(log)
    assert [record.key for record in records_of(log)] == [b"a", b"b"]


def test_fates_of_a_batch_with_a_hole_are_not_known():
    fates = Fates(10, 2)
    fates.codes[:2] = bytes([LATEST, GONE])
    header = parse_header(leader_batch(10, 0, (b"k", b"v"), (b"k", b"v")))
    assert fates.of(header) == bytes([LATEST, GONE])
    assert fates.of(header._replace(records_count=1)) is None
