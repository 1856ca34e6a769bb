"""Random histories of a compacted log against a dictionary: every codec, tombstones, producers, transactions.

After each cleaning and each restart: what is there is what was written, what readers of either isolation see adds up to
the latest values, nothing superseded is left in the clean part, producers are known, and offsets are what they were
(CL-3, CL-5, CL-6, CL-7, CL-8)."""

import random
from dataclasses import dataclass, field

import pytest

from replog.log.compaction.cleaning import find_cleanable
from replog.log.compaction.rewriting import SLOT_BYTES
from replog.log.formats.batch import HEADER_SIZE, iterate_batches
from replog.log.formats.records import LogRecord, iterate_records
from replog.log.log import Log
from replog.log.offsets import AppendOrigin, Isolation
from tests.replog.log.batches import client_batch, open_log
from tests.replog.log.compaction.compacting import batches_of, clean, records_of
from tests.replog.log.producers.writes import kept, marker

SETTINGS = {
    "cleanup_policy": "compact",
    "segment_bytes": 2000,
    "index_interval_bytes": 300,
    "delete_retention_ms": 1000,
}
KEYS = [b"%d" % number for number in range(12)]


@dataclass
class History:
    """What was written, and by whom."""

    log: Log
    rng: random.Random
    now_ms: int = 10_000
    clean_to: int = 0
    written: dict[int, LogRecord] = field(default_factory=dict)
    void: set[int] = field(default_factory=set)  # offsets of aborted transactions
    open: dict[int, list[int]] = field(default_factory=dict)  # producer → offsets in its open transaction
    sequences: dict[int, int] = field(default_factory=dict)
    last: dict[int, tuple[bytes, int]] = field(default_factory=dict)  # producer → its last batch, its first offset
    epoch: int = 0

    def append(self) -> None:
        count = self.rng.randint(1, 6)
        values = [
            (self.rng.choice(KEYS), None if self.rng.random() < 0.2 else self.rng.randbytes(30)) for _ in range(count)
        ]
        times = [self.now_ms + self.rng.randint(-500, 500) for _ in values]
        pid = self.rng.choice([-1, -1, 1, 2, 3, 4])  # 3 and 4 are transactional
        fields = {}
        if pid >= 0:
            fields = {"producer_id": pid, "producer_epoch": 0, "base_sequence": self.sequences.get(pid, 0)}
        batch = client_batch(*values, timestamps=times, codec=self.rng.randrange(5), transactional=pid >= 3, **fields)
        self.epoch += self.rng.random() < 0.05
        info = self.log.append_as_leader(batch, leader_epoch=self.epoch, now_ms=self.now_ms)
        if pid >= 0:
            self.sequences[pid] = self.sequences.get(pid, 0) + count
            self.last[pid] = batch, info.first_offset
        for offset, ((key, value), time) in enumerate(zip(values, times, strict=True), info.first_offset):
            self.written[offset] = LogRecord(offset, time, key, value, ())
            if pid >= 3:
                self.open.setdefault(pid, []).append(offset)

    def end_transaction(self) -> None:
        if self.open:
            pid = self.rng.choice(list(self.open))
            commit = self.rng.random() < 0.5
            data = marker(pid, commit=commit, timestamp=self.now_ms)
            self.log.append_as_leader(
                data, leader_epoch=self.epoch, now_ms=self.now_ms, origin=AppendOrigin.COORDINATOR
            )
            offsets = self.open.pop(pid)
            if not commit:
                self.void |= set(offsets)

    def clean(self) -> None:
        ends = [header.next_offset for header, _ in batches_of(self.log)]
        higher = [end for end in ends if end >= self.log.high_watermark]
        self.log.update_high_watermark(self.rng.choice(higher or [0]))
        map_bytes = self.rng.choice([12 * SLOT_BYTES, 1 << 16])
        cleanable = find_cleanable(self.log, self.clean_to, self.now_ms)
        if cleanable.cleanable_bytes:
            self.clean_to = clean(self.log, self.now_ms, checkpoint=self.clean_to, map_bytes=map_bytes)
            assert cleanable.first_dirty < self.clean_to <= cleanable.first_uncleanable

    def restart(self) -> None:
        high_watermark, epochs = self.log.high_watermark, self.log.epochs.entries
        if self.rng.random() < 0.5:
            self.log.close()
            self.log = open_log(self.log.directory, high_watermark=high_watermark, **SETTINGS)
        else:
            self.log.abandon()
            self.log = open_log(
                self.log.directory,
                clean=False,
                recovery_point=self.rng.choice([0, self.log.recovery_point]),
                high_watermark=high_watermark,
                **SETTINGS,
            )
        assert not self.log.lost_data
        assert self.log.epochs.entries == epochs

    # -- what must hold

    def latest(self, below: int, *, skip: set[int]) -> dict[bytes, bytes]:
        values: dict[bytes, bytes | None] = {}
        for offset in sorted(self.written):
            record = self.written[offset]
            if offset < below and offset not in skip and record.key is not None:
                values[record.key] = record.value
        return {key: value for key, value in values.items() if value is not None}

    def check(self) -> None:
        there = records_of(self.log)
        offsets = [record.offset for record in there]
        assert offsets == sorted(set(offsets))
        assert all(record == self.written[record.offset] for record in there)
        ongoing = {offset for offsets in self.open.values() for offset in offsets}
        committed = {record.offset: record for record in there if record.offset not in self.void | ongoing}
        end = self.log.log_end_offset
        assert _values(committed) == self.latest(end, skip=self.void | ongoing)
        assert not [offset for offset in offsets if offset < self.clean_to and offset in self.void]
        clean_keys = [record.key for offset, record in committed.items() if offset < self.clean_to]
        assert len(clean_keys) == len(set(clean_keys)), "one record of each key in the clean part"
        stable = self.log.last_stable_offset
        if stable >= self.clean_to:  # a restart may take it back: it is less that is known then
            assert _values(read_committed(self.log)) == self.latest(stable, skip=self.void | ongoing)

    def check_producers(self) -> None:
        for pid, (batch, first_offset) in self.last.items():
            known = self.log.append_as_leader(batch, leader_epoch=self.epoch, now_ms=self.now_ms)
            assert known.first_offset == first_offset, f"producer {pid} is not known any more"


def read_committed(log: Log) -> dict[int, LogRecord]:
    """As a consumer reads: aborted data is passed over."""
    committed: dict[int, LogRecord] = {}
    offset = log.log_start_offset
    while offset < log.last_stable_offset:
        data = log.read(offset, 700, Isolation.TXN_COMMITTED, min_one_message=True)
        if not data.records:
            break
        for position, header in kept(data):
            committed |= {record.offset: record for record in iterate_records(data.records, header, position)}
        offset = max(header.next_offset for _, header in iterate_batches(data.records))
    return committed


def _values(records: dict[int, LogRecord]) -> dict[bytes, bytes]:
    values = {record.key: record.value for _, record in sorted(records.items())}
    return {key: value for key, value in values.items() if key is not None and value is not None}


@pytest.mark.parametrize("seed", range(6))
def test_a_compacted_log_is_a_dictionary(tmp_path, seed):
    rng = random.Random(seed)
    history = History(open_log(tmp_path, **SETTINGS), rng)
    for _ in range(120):
        history.now_ms += rng.randint(0, 100)
        match rng.random():
            case x if x < 0.70:
                history.append()
            case x if x < 0.85:
                history.end_transaction()
            case x if x < 0.88:
                history.log.roll()
            case x if x < 0.96:
                history.clean()
                history.check()
            case _:
                history.restart()
                history.check()
    while history.open:
        history.end_transaction()
    history.log.roll()
    history.log.update_high_watermark(history.log.log_end_offset)
    for _ in range(6):
        history.now_ms += 2000
        history.clean()
        history.check()
    clean(history.log, history.now_ms, checkpoint=0)
    history.check()
    assert len(records_of(history.log)) <= len(KEYS) + history.log.log_end_offset - history.clean_to
    history.restart()
    history.check()
    history.check_producers()
    assert max(record.offset for record in records_of(history.log)) < history.log.log_end_offset


def test_aborted_data_and_markers_without_data_go(tmp_path):
    """CL-5, CL-6: data at once, the marker and its index entry after that, once its horizon has passed."""
    log = open_log(tmp_path, cleanup_policy="compact", delete_retention_ms=100)
    plain = client_batch((b"k", b"old"))
    log.append_as_leader(plain, leader_epoch=0, now_ms=0)
    data = client_batch((b"k", b"void"), transactional=1, producer_id=9, producer_epoch=0, base_sequence=0)
    log.append_as_leader(data, leader_epoch=0, now_ms=0)
    log.append_as_leader(marker(9, commit=False), leader_epoch=0, now_ms=0, origin=AppendOrigin.COORDINATOR)
    later = client_batch((b"x", b"1"), transactional=1, producer_id=9, producer_epoch=0, base_sequence=1)
    log.append_as_leader(later, leader_epoch=0, now_ms=0)
    log.append_as_leader(marker(9, commit=True), leader_epoch=0, now_ms=0, origin=AppendOrigin.COORDINATOR)
    log.roll()
    log.update_high_watermark(5)
    index = tmp_path / f"{0:020d}.txnindex"
    sizes, there = [], []
    for now_ms in (1000, 1000, 1099, 1100):
        clean(log, now_ms)
        sizes.append(index.stat().st_size if index.exists() else 0)
        data = log.segments[0].path.read_bytes()
        there.append([header.base_offset for _, header in iterate_batches(data)])
        assert [record.value for record in records_of(log)] == [b"old", b"1"]
    assert sizes == [34, 0, 0, 0]
    assert there == [[0, 2, 3, 4], [0, 2, 3, 4], [0, 2, 3, 4], [0, 3, 4]]
    assert log.segments[0].size > HEADER_SIZE
    clean(log, 10_000)
    assert [header.base_offset for _, header in iterate_batches(log.segments[0].path.read_bytes())] == [0, 3, 4]
