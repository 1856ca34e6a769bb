"""Random histories of one log on real files, against a list of batches.

Appends as leader and as follower, truncations, rolls, retention, moves of every bound, clean stops and crashes. After
every step the log holds and answers what the model does, and the storage invariants (13) hold, by their numbers.
`REPLOG_SOAK=<histories>` runs that many, each longer, by chance (`make fuzz`)."""

import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from leader.list_offsets import offset_for_timestamp
from replog.errors import ReplogError
from replog.log.errors import CorruptRecord, OffsetOutOfRange, OffsetsOutOfOrder, UnexpectedAppendOffset
from replog.log.log import Log
from replog.log.offsets import Isolation
from replog.log.retention import delete_old_segments
from replog.log.segment import UNWRITTEN_ENTRIES
from tests.cases import SOAK
from tests.replog.log.batches import changed, client_batch, config, leader_batch, open_log, stamped
from tests.replog.log.crashes import crash
from tests.replog.log.log_model import Batch, ModelLog, ModelSegment

MEMORY = Path("/dev/shm")

times = st.sampled_from([0, 5, 1000]) | st.integers(0, 3000)
sizes = st.integers(0, 40)
contents = st.lists(st.tuples(sizes, times), min_size=1, max_size=5) | st.lists(
    st.tuples(sizes, st.just(-1)), min_size=1, max_size=4
)
places = st.tuples(st.sampled_from(["any", "batch", "segment", "bound"]), st.floats(0, 1))
chances = st.randoms(use_true_random=False)


class Histories(RuleBasedStateMachine):
    # -- beginning and end

    @initialize(
        segment_bytes=st.sampled_from([300, 700, 2000, 10**6]),
        index_interval_bytes=st.sampled_from([0, 1, 100, 400, 4096]),
        segment_ms=st.sampled_from([100, 900, 10**6]),
        segment_index_bytes=st.sampled_from([24, 60, 10**4]),
        message_timestamp_type=st.sampled_from(["CreateTime", "CreateTime", "LogAppendTime"]),
        flush_messages=st.sampled_from([1, 20, 2**63 - 1, 2**63 - 1]),
    )
    def begin(self, **overrides: Any) -> None:
        self.temporary = tempfile.TemporaryDirectory(prefix="replog-machine-", dir=MEMORY if MEMORY.is_dir() else None)
        self.directory = Path(self.temporary.name) / "t-0"
        self.overrides = overrides
        self.model = ModelLog(config(**overrides))
        self.now_ms = 1000
        self.leader_epoch = 0
        self.checkpoints = {"recovery_point": 0, "log_start_offset": 0, "high_watermark": 0}
        self.durable: dict[str, int] = {}  # bytes at the front of each file that no crash takes
        self.reports: list[str] = []
        self.open(clean=True)

    def open(self, *, clean: bool) -> None:
        self.reports.clear()
        self.log: Log = open_log(
            self.directory, clean=clean, on_progress=self.reports.append, **self.checkpoints, **self.overrides
        )
        self.log.on_recovery_point_lowered = self.recovery_point_lowered

    def recovery_point_lowered(self) -> None:
        self.checkpoints["recovery_point"] = self.log.recovery_point

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.abandon()
            self.temporary.cleanup()

    def offset(self, place: tuple[str, float], beyond: int = 0) -> int:
        """One from the log's first on, up to `beyond` above its end: any, or where something begins or ends."""
        kind, fraction = place
        model = self.model
        if kind == "any" or (kind == "batch" and not model.batches):
            return round(model.first_base + fraction * (model.log_end + beyond - model.first_base))
        some = {
            "batch": [batch.base for batch in model.batches],
            "segment": self.bases,
            "bound": [
                model.log_start,
                model.high_watermark,
                model.log_end,
                max(model.recovery_point, model.first_base),
            ],
        }[kind]
        return some[round(fraction * (len(some) - 1))]

    @property
    def bases(self) -> list[int]:
        return [segment.base_offset for segment in self.log.segments]

    # -- appends

    @rule(
        several=st.lists(
            st.tuples(contents, st.sampled_from([0, 0, 0, 1, 3]), st.sampled_from([0, 0, 1])), min_size=1, max_size=5
        )
    )
    def lead(self, several: list[tuple[list[tuple[int, int]], int, int]]) -> None:
        for content, raised, codec in several:
            self.lead_one(content, raised, codec)

    def lead_one(self, content: list[tuple[int, int]], raised: int, codec: int) -> None:
        epoch = self.leader_epoch = max(self.leader_epoch, self.log.epochs.latest_epoch or 0) + raised
        sent = client_batch(
            *[b"v" * size for size, _ in content], timestamps=[time for _, time in content], codec=codec
        )
        info = self.log.append_as_leader(sent, leader_epoch=epoch, now_ms=self.now_ms)
        stored, record_times = self.as_led(stamped(sent, self.model.log_end, epoch), [time for _, time in content])
        self.model.append(Batch.of(stored, record_times))
        assert (info.first_offset, info.last_offset) == (self.model.batches[-1].base, self.model.batches[-1].last)
        self.appended()

    def as_led(self, batch: bytes, record_times: list[int]) -> tuple[bytes, list[int]]:
        """The batch and its records' times as a leader of this topic makes them (2.7)."""
        if self.model.config.message_timestamp_type == "CreateTime":
            return batch, record_times
        stored = changed(changed(batch, 22, ">B", batch[22] | 8), 35, ">q", self.now_ms)
        return stored, [self.now_ms] * len(record_times)

    @rule(
        fetched=st.lists(st.tuples(contents, st.sampled_from([0, 0, 1])), min_size=1, max_size=4),
        tail=st.integers(0, 80),
        fault=st.sampled_from([None, None, "crc", "offset", "epoch", "magic"]),
    )
    def follow(self, fetched: list[tuple[list[tuple[int, int]], int]], tail: int, fault: str | None) -> None:
        base, epoch = self.model.log_end, max(self.log.epochs.latest_epoch or 0, self.leader_epoch)
        good: list[Batch] = []
        for content, raised in fetched:
            epoch += raised
            record_times = tuple(time for _, time in content)
            data = leader_batch(base, epoch, *[b"f" * size for size, _ in content], timestamps=record_times)
            good.append(Batch.of(data, record_times))
            base += len(content)
        fetch = b"".join(batch.data for batch in good)
        following = leader_batch(base, epoch, b"n")
        if fault is None:
            self.log.append_as_follower(fetch + following[: min(tail, len(following) - 1)])
        else:
            with pytest.raises(ReplogError) as refused:
                self.log.append_as_follower(fetch + spoiled(following, fault, epoch) + following)
            assert isinstance(refused.value, CorruptRecord if fault in ("crc", "magic") else OffsetsOutOfOrder)
        for batch in good:
            self.model.append(batch)
        self.leader_epoch = epoch
        self.appended()

    @rule(gap=st.sampled_from([-1, 1, 100]))
    def follow_what_does_not_continue(self, gap: int) -> None:
        """S-W-U8, changed: Kafka takes holes."""
        base = self.model.log_end + gap
        if base >= 0:
            with pytest.raises(UnexpectedAppendOffset):
                self.log.append_as_follower(leader_batch(base, self.log.epochs.latest_epoch or 0, b"x"))

    def appended(self) -> None:
        if self.log.log_end_offset - self.model.recovery_point >= self.model.config.flush_messages:
            self.flushed_to(self.log.log_end_offset)

    @rule(raised=st.integers(0, 2))
    def become_leader(self, raised: int) -> None:
        self.leader_epoch = max(self.leader_epoch, self.log.epochs.latest_epoch or 0) + raised
        self.log.assign_epoch_start(self.leader_epoch)
        assert self.log.epochs.latest_epoch == self.leader_epoch

    # -- truncation, rolling, retention

    @rule(place=places)
    def truncate(self, place: tuple[str, float]) -> None:
        """S-W-U2; S-W-U3, S-W-U4, S-W-U5, S-W-U6, changed: the log ends where the batch of the offset began (LG-10,
        LG-11)."""
        offset = self.offset(place, beyond=2)
        removed = self.log.truncate_to(offset)
        assert removed == (offset < self.model.log_end)
        if removed:
            self.model.truncate(offset)
            self.truncated()

    @rule(place=places)
    def truncate_fully(self, place: tuple[str, float]) -> None:
        """S-W-U7, LG-12."""
        offset = self.offset(place, beyond=50)
        self.log.truncate_fully_and_start_at(offset)
        self.model.start_anew(offset)
        self.truncated()

    def truncated(self) -> None:
        self.forget_durable()
        self.flushed_to(self.model.log_end)

    def forget_durable(self) -> None:
        """What is cut off is not durable any more, whatever is written there later."""
        sizes = {path.name: path.stat().st_size for path in self.directory.iterdir()}
        self.durable = {name: min(size, sizes[name]) for name, size in self.durable.items() if name in sizes}

    @rule()
    def roll(self) -> None:
        self.log.roll()
        self.model.forced_bases.add(self.model.log_end)

    @rule(
        later=st.integers(0, 2000),
        retention_ms=st.sampled_from([-1, 0, 500, 2000]),
        retention_bytes=st.sampled_from([-1, -1, 0, 400, 3000]),
    )
    def retain(self, later: int, retention_ms: int, retention_bytes: int) -> None:
        """LG-13 to LG-15."""
        self.now_ms += later
        limits = {"retention_ms": retention_ms, "retention_bytes": retention_bytes}
        self.log.config = self.model.config = self.model.config.model_copy(update=limits)
        segments = [(segment.base_offset, segment.size) for segment in self.log.segments]
        expired = self.model.expired(segments, self.now_ms)
        assert sum(iter(lambda: delete_old_segments(self.log, self.now_ms), 0)) == expired
        if expired:
            if expired == len(segments):
                self.model.forced_bases.add(self.model.log_end)
            self.model.remove_before(([base for base, _ in segments] + [self.model.log_end])[expired])
            self.forget_durable()

    # -- bounds

    @rule(place=places)
    def raise_high_watermark(self, place: tuple[str, float]) -> None:
        offset = self.offset(place)
        assert self.log.maybe_increment_high_watermark(offset) == (offset > self.model.high_watermark)
        self.model.high_watermark = max(offset, self.model.high_watermark)

    @rule(place=places)
    def learn_high_watermark(self, place: tuple[str, float]) -> None:
        offset = self.offset(place, beyond=3)
        self.model.high_watermark = min(max(offset, self.model.log_start), self.model.log_end)
        assert self.log.update_high_watermark(offset) == self.model.high_watermark

    @rule(place=places)
    def delete_records(self, place: tuple[str, float]) -> None:
        """LG-16."""
        offset = self.offset(place)
        if offset > self.model.high_watermark:
            with pytest.raises(OffsetOutOfRange):
                self.log.maybe_increment_log_start_offset(offset)
        else:
            assert self.log.maybe_increment_log_start_offset(offset) == (offset > self.model.log_start)
            self.model.log_start = max(offset, self.model.log_start)

    # -- durability

    @rule(place=places)
    def flush(self, place: tuple[str, float]) -> None:
        """LG-18."""
        offset = self.offset(place)
        self.log.flush(offset)
        if offset > self.model.recovery_point:
            self.flushed_to(offset)

    def flushed_to(self, offset: int) -> None:
        """The log has fsynced the files of these segments."""
        bases = self.bases
        first = max((base for base in bases if base < self.model.recovery_point), default=bases[0])
        for path in self.directory.iterdir():
            base = int(path.name[:20]) if path.name[:20].isdigit() else -1
            whole = base < bases[-1] or path.suffix in (
                ".log",
                ".snapshot",
            )  # a recovery makes the active one's indexes
            if first <= base < offset and whole:
                self.durable[path.name] = path.stat().st_size
        self.model.recovery_point = offset

    @rule(which=st.sets(st.sampled_from(["recovery_point", "log_start_offset", "high_watermark"]), min_size=1))
    def checkpoint(self, which: set[str]) -> None:
        self.checkpoints |= {name: getattr(self.log, name) for name in which}

    @rule()
    def stop_and_start(self) -> None:
        """Invariant 6; a clean stop and start change and repair nothing (SG-12, changed: Kafka adds a time entry)."""
        self.log.write_indexes()
        before = self.segment_files()
        self.log.close()
        self.checkpoint({"recovery_point", "log_start_offset", "high_watermark"})
        assert self.segment_files() == before
        assert self.model.log_end == 0 or (self.directory / f"{self.model.log_end:020d}.snapshot").exists()
        self.open(clean=True)
        assert self.reports == []
        assert self.segment_files() == before
        self.model.recovery_point = self.model.log_end
        self.durable = {path.name: path.stat().st_size for path in self.directory.iterdir()}

    @rule(rng=chances)
    def crash_and_start(self, rng: random.Random) -> None:
        """Any byte that was not fsynced may be gone: the sound batches at the front come back, all durable ones too."""
        self.log.abandon()
        durable_end = self.model.recovery_point
        end = crash(self.directory, self.model, self.bases, self.durable, self.checkpoints["recovery_point"], rng)
        assert end >= durable_end, "the crash took durable bytes: the test is wrong"
        self.open(clean=False)
        model, checkpoints = self.model, self.checkpoints
        model.batches = model.within(model.first_base, end)
        model.forced_bases.add(end)
        if end < checkpoints["log_start_offset"]:  # LD-8
            model.start_anew(checkpoints["log_start_offset"])
        model.log_start = max(checkpoints["log_start_offset"], model.first_base)
        model.high_watermark = min(max(checkpoints["high_watermark"], model.log_start), model.log_end)
        model.recovery_point = min(checkpoints["recovery_point"], model.log_end)
        self.durable = {path.name: path.stat().st_size for path in self.directory.iterdir()}

    @rule()
    def write_indexes(self) -> None:
        self.log.write_indexes()

    # -- what must hold after every step

    def segment_files(self) -> dict[str, bytes]:
        kinds = (".log", ".index", ".timeindex", ".digest")
        return {path.name: path.read_bytes() for path in self.directory.iterdir() if path.suffix in kinds}

    @invariant()
    def bounds_agree(self) -> None:
        """Invariant 1."""
        log, model = self.log, self.model
        bounds = (log.log_start_offset, log.high_watermark, log.log_end_offset, log.recovery_point)
        assert bounds == (model.log_start, model.high_watermark, model.log_end, model.recovery_point)
        assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset
        assert log.recovery_point <= log.log_end_offset
        active = log.segments[-1]
        assert active.base_offset <= log.log_end_offset
        assert log.bound(Isolation.LOG_END) == (log.log_end_offset, active.base_offset, active.size)
        assert log.bound(Isolation.HIGH_WATERMARK) == log._segments.locate(log.high_watermark)

    @invariant()
    def files_are_a_function_of_the_batches(self) -> None:
        """Invariants 2, 3, 5, 7 and 8; IX-14, SG-11, S-W-S3, S-W-S4, S-W-L4. S-W-L3, changed: a
        follower rolls where its leader did."""
        bases, model = self.bases, self.model
        assert bases[0] == model.first_base
        expected: dict[str, bytes] = {}
        before: ModelSegment | None = None
        for base, end in zip(bases, [*bases[1:], model.log_end], strict=True):
            batches = model.within(base, end)
            assert base == (batches[0].base if batches else model.log_end)
            if before is not None:
                assert not batches or base in model.forced_bases or before.must_end_before(batches[0]), "SG-6"
                before.seal()
                expected |= before.files()
            segment = ModelSegment(base, model.config)
            for batch in batches:
                assert not segment.must_end_before(batch), "SG-6"
                segment.add(batch)
            expected |= segment.files()
            before = segment
        seen = self.segment_files()
        for suffix, entry in ((".index", 8), (".timeindex", 12), (".digest", 12)):
            name = f"{bases[-1]:020d}{suffix}"  # of the active segment, whose last entries may not be written yet
            assert 0 <= len(expected[name]) - len(seen[name]) < UNWRITTEN_ENTRIES * entry
            expected[name] = expected[name][: len(seen[name])]
        assert seen == expected
        assert not [path for path in self.directory.iterdir() if path.suffix in (".cleaned", ".swap")]
        assert self.log.size == sum(len(batch.data) for batch in model.batches)

    @invariant()
    def epochs_agree(self) -> None:
        """Invariant 4; EP-6."""
        entries, end = self.log.epochs.entries, self.model.log_end
        below = [entry for entry in entries if entry[1] < end]
        assert below == self.model.epochs()
        assert [start for _, start in entries[len(below) :]] in ([], [end])
        assert entries or not self.model.batches, "hidden or not, the last batch is of some epoch"
        for epoch in range(-1, self.leader_epoch + 2):
            assert self.log.end_offset_for_epoch(epoch) == self.model.end_offset_for(epoch, entries)

    @rule(
        place=places,
        max_bytes=st.sampled_from([0, 1, 61, 100, 1000, 10**6]),
        isolation=st.sampled_from(Isolation),
        min_one=st.booleans(),
    )
    def read(self, place: tuple[str, float], max_bytes: int, isolation: Isolation, min_one: bool) -> None:
        """LG-7, S-W-R3."""
        offset = self.offset(place, beyond=1)
        if not self.model.log_start <= offset <= self.model.log_end:
            with pytest.raises(OffsetOutOfRange):
                self.log.read(offset, max_bytes, isolation, min_one_message=min_one)
            return
        data = self.log.read(offset, max_bytes, isolation, min_one_message=min_one)
        assert data.metadata.offset == offset
        bound = {
            Isolation.LOG_END: self.model.log_end,
            Isolation.HIGH_WATERMARK: self.model.high_watermark,
            Isolation.TXN_COMMITTED: self.log.last_stable_offset,
        }[isolation]
        expected = self.model.read(offset, max_bytes, bound, self.bases, min_one)
        assert bytes(data.records) == expected

    @rule(timestamp=st.integers(0, 3100))
    def look_up_a_timestamp(self, timestamp: int) -> None:
        """SG-7."""
        assert offset_for_timestamp(self.log, timestamp) == self.model.offset_for_timestamp(timestamp)


def spoiled(batch: bytes, fault: str, epoch: int) -> bytes:
    """A batch that may not be appended."""
    if fault == "offset":
        return stamped(batch, int.from_bytes(batch[:8], "big") + 1, epoch)
    if fault == "epoch":
        return stamped(batch, int.from_bytes(batch[:8], "big"), epoch - 1)
    data = bytearray(batch)
    data[{"crc": -1, "magic": 16}[fault]] ^= 0x40
    return bytes(data)


MACHINE_SETTINGS = settings(
    max_examples=SOAK or 60,
    stateful_step_count=100 if SOAK else 50,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
Histories.TestCase.settings = MACHINE_SETTINGS
test_every_history_of_a_log = Histories.TestCase
