"""Random histories of a log with producers and transactions: all of `test_log_machine`, and what it knows of them.

After a start or a truncation a log may have forgotten what lies below its log start; all else it must know."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from replog.errors import ErrorCode, ReplogError
from replog.log.formats.batch import CONTROL, parse_header
from replog.log.indexes.transaction_index import AbortedTxn
from replog.log.offsets import AppendOrigin, Isolation
from replog.log.producers.state import ProducerState
from tests.replog.log.batches import stamped
from tests.replog.log.log_model import Batch
from tests.replog.log.producer_model import walk
from tests.replog.log.producers import writes as producers
from tests.replog.log.test_log_machine import MACHINE_SETTINGS, Histories, places

pids = st.integers(1, 3)
new_epochs = st.sampled_from([False, False, False, True])
firsts = st.sampled_from([0, 0, 17, 2**31 - 3])
data = st.tuples(st.just("data"), pids, new_epochs, st.integers(1, 3), firsts, st.sampled_from([True, True, False]))
ends = st.tuples(st.just("end"), pids, new_epochs, st.booleans())


class ProducerHistories(Histories):
    forgotten = 0  # what lies below may not be known any more
    follow = follow_what_does_not_continue = become_leader = learn_high_watermark = None  # more of what is new here
    look_up_a_timestamp = read = None

    def open(self, *, clean: bool) -> None:
        super().open(clean=clean)
        self.opened_at = self.most_replicated = self.log.log_end_offset
        self.may_have_forgotten()
        self.most_replicated = self.log.high_watermark

    def known(self, pid: int) -> ProducerState | None:
        return self.log.producers._producers.get(pid)

    def append(self, data: bytes, *, as_leader: bool, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
        """As the only leader, or as its follower, which gets the same bytes."""
        self.leader_epoch = max(self.leader_epoch, self.log.epochs.latest_epoch or 0)
        batch = stamped(data, self.model.log_end, self.leader_epoch)
        if as_leader:
            self.log.append_as_leader(data, leader_epoch=self.leader_epoch, now_ms=self.now_ms, origin=origin)
        else:
            self.log.append_as_follower(batch)
        header = parse_header(batch)
        times = [header.max_timestamp] * header.records_count
        self.model.append(Batch.of(*(self.as_led(batch, times) if as_leader else (batch, times))))
        self.appended()

    def next_sequence(self, state: ProducerState | None, first: int) -> int:
        if state is None:
            return first
        return (state.last_sequence + 1) % 2**31

    @rule(writes=st.lists(data | ends, min_size=1, max_size=6), as_leader=st.booleans())
    def write(self, writes: list[tuple[Any, ...]], as_leader: bool) -> None:
        for kind, *arguments in writes:
            (self.produce if kind == "data" else self.end_transaction)(*arguments, as_leader=as_leader)

    def produce(
        self, pid: int, new_epoch: bool, count: int, first: int, transactional: bool, *, as_leader: bool
    ) -> None:
        """PS-2; S-W-P5: an unknown producer begins anywhere; S-W-P6: sequences wrap."""
        state = self.known(pid)
        epoch = (state.epoch if state else 0) + new_epoch
        sequence = 0 if new_epoch and state else self.next_sequence(state, first)
        transactional |= state is not None and state.txn_first_offset >= 0
        self.append(producers.batch(epoch, sequence, count, pid=pid, transactional=transactional), as_leader=as_leader)

    def end_transaction(self, pid: int, new_epoch: bool, commit: bool, *, as_leader: bool) -> None:
        """PS-4."""
        state = self.known(pid)
        epoch = (state.epoch if state else 0) + new_epoch
        data = producers.marker(pid, commit=commit, epoch=epoch)
        self.append(data, as_leader=as_leader, origin=AppendOrigin.COORDINATOR)

    @rule(pid=pids, back=st.integers(0, 4))
    def send_again(self, pid: int, back: int) -> None:
        """PS-3: a duplicate of a batch that is remembered."""
        state = self.known(pid)
        if state is None or back >= len(state.batches):
            return
        batch = state.batches[-1 - back]
        count = batch.last_offset - batch.first_offset + 1
        data = producers.batch(state.epoch, batch.first_sequence, count, pid=pid, transactional=False)
        info = self.log.append_as_leader(data, leader_epoch=self.log.epochs.latest_epoch or 0, now_ms=self.now_ms)
        assert (info.first_offset, info.last_offset) == (batch.first_offset, batch.last_offset)

    @rule(pid=pids, how=st.sampled_from(["gap", "old epoch", "outside"]))
    def send_what_is_refused(self, pid: int, how: str) -> None:
        """PS-2; S-W-P9: a plain batch within a transaction."""
        state = self.known(pid)
        if state is None:
            return
        sequence = self.next_sequence(state, 0)
        epoch = state.epoch
        error = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if how == "gap":
            sequence = (sequence + 1) % 2**31
        elif how == "old epoch":
            epoch, error = epoch - 1, ErrorCode.INVALID_PRODUCER_EPOCH
        else:
            error = ErrorCode.INVALID_TXN_STATE
        if epoch < 0 or (how == "outside" and state.txn_first_offset < 0):
            return
        data = producers.batch(epoch, sequence, 1, pid=pid, transactional=False)
        with pytest.raises(ReplogError, match=error.name):
            self.log.append_as_leader(data, leader_epoch=self.log.epochs.latest_epoch or 0, now_ms=self.now_ms)

    # -- what a truncation or a start may forget

    def truncated(self) -> None:
        super().truncated()
        self.may_have_forgotten()

    def may_have_forgotten(self) -> None:
        end = self.log.log_end_offset
        self.forgotten = max(min(self.forgotten, end), self.log.log_start_offset)
        self.opened_at = min(self.opened_at, end)
        self.most_replicated = min(self.most_replicated, end)

    # -- what must hold after every step

    @invariant()
    def producers_agree(self) -> None:
        """PS-1, PS-2, PS-10."""
        expected, _ = walk([*self.model.removed, *self.model.batches])
        states = self.log.producers._producers
        assert states.keys() <= expected.keys()
        for pid, producer in expected.items():
            state = states.get(pid)
            if min(producer.last_seen, producer.last_offset % 2**63) >= self.forgotten:  # -1: markers alone
                assert state is not None
                assert state.epoch == producer.epoch
            if state is None:
                continue
            last = (state.batches[-1].last_sequence, state.batches[-1].last_offset) if state.batches else (-1, -1)
            if producer.last_offset >= self.forgotten or state.batches:
                assert last == (producer.last_sequence, producer.last_offset)
            known = producer.open.first_from(self.forgotten) if producer.open else None
            if known is not None or producer.open is None:
                firsts = [batch.base for batch in producer.open.batches] if producer.open else [-1]
                assert state.txn_first_offset in firsts

    @invariant()
    def the_last_stable_offset_agrees(self) -> None:
        """PS-5."""
        log = self.log
        self.most_replicated = max(self.most_replicated, log.high_watermark)
        _, transactions = walk([*self.model.removed, *self.model.batches])
        strict, certain = [log.high_watermark], [log.high_watermark]
        for one in transactions:
            first = one.first_from(self.forgotten)
            if one.end is None or one.end >= log.high_watermark:
                strict.append(one.first)
            if first is not None and (one.end is None or one.end >= max(self.most_replicated, self.opened_at)):
                certain.append(first)
        assert max(min(strict), log.log_start_offset) <= log.last_stable_offset
        assert log.last_stable_offset <= max(min(certain), log.log_start_offset)

    @invariant()
    def the_transaction_indexes_agree(self) -> None:
        """IX-19, PS-6: every aborted transaction in the segment that holds its marker, and nothing else."""
        _, transactions = walk([*self.model.removed, *self.model.batches])
        aborted = {one.end: one for one in transactions if one.end is not None and not one.committed}
        by_marker: dict[int, AbortedTxn] = {}
        for segment, end in zip(self.log._segments, [*self.bases[1:], self.model.log_end], strict=True):
            for entry in segment.transaction_index.entries():
                assert segment.base_offset <= entry.last_offset < end
                by_marker[entry.last_offset] = entry
                one = aborted[entry.last_offset]
                assert entry.producer_id == one.producer_id
                assert entry.first_offset in [batch.base for batch in one.batches]
                assert self.forgotten or entry.last_stable_offset == one.stable
        for marker, one in aborted.items():
            if marker >= self.model.first_base and one.first_from(self.forgotten) is not None:
                assert marker in by_marker

    @rule(place=places, max_bytes=st.sampled_from([0, 100, 300, 1000, 10**6]))
    def read_committed(self, place: tuple[str, float], max_bytes: int) -> None:
        """LG-9: a consumer gets the decided records, and none of an aborted transaction."""
        offset = self.offset(place)
        if not self.model.log_start <= offset <= self.model.log_end:
            return
        read = self.log.read(offset, max_bytes, Isolation.TXN_COMMITTED, min_one_message=True)
        bound = self.log.last_stable_offset
        data = bytes(read.records)
        assert data == self.model.read(offset, max_bytes, bound, self.bases, True)
        whole = []
        for batch in (b for b in self.model.batches if b.last >= offset):
            if len(data) < len(batch.data):
                break  # cut off: a shorter batch that stands behind it is not in the answer
            whole.append(batch)
            data = data[len(batch.data) :]
        _, transactions = walk([*self.model.removed, *self.model.batches])
        aborted = [one for one in transactions if one.end is not None and not one.committed]
        void = {batch.base for one in aborted for batch in one.batches}
        expected = [b.base for b in whole if not b.header.attributes & CONTROL and b.base not in void]
        known = self.forgotten
        kept = [header.base_offset for _, header in producers.kept(read) if header.base_offset >= known]
        assert kept == [base for base in expected if base >= known]


ProducerHistories.TestCase.settings = MACHINE_SETTINGS
test_every_history_of_a_log_with_producers = ProducerHistories.TestCase
