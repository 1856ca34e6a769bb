"""Finds in a `History` what no client may see: the anomalies of published consistency analyses (INV-17, INV-18).

Pure. Every consumer here is assigned its partitions by hand, so gaps and steps back between its polls are faults.

| Anomaly | Is | Tolerated |
|---|---|---|
| lost-write | acknowledged at an offset below one that was read, and never read | acks 0 and 1; below a deletion |
| unseen | acknowledged, and not there in the end | acks 0 and 1; below a deletion |
| stale-key | the latest record that is known of a key is not there in the end | tombstones; below a deletion |
| aborted-read | READ_COMMITTED showed a record before its transaction was committed (LG-9, PS-5) | never |
| duplicate | one value at two offsets | producers without idempotence; a replica that led later never had the first |
| inconsistent-offsets | two values at one offset | never among reads and acks=all (INV-17) |
| int-poll-skip, poll-skip | a record between two that one consumer read in turn was passed over | compacted topics |
| int-nonmonotonic-poll, nonmonotonic-poll | an offset was read after a higher one | behind a seek |
| int-nonmonotonic-send, nonmonotonic-send | a later record has a lower offset | without idempotence |
| nonmonotonic-latest | an end offset that a client was told went back (INV-18) | never |
| bad-offset | a success with an offset that cannot be | -1 of acks=0, or of an idempotent producer |
| made-up | a value was read that nobody sent, or one that certainly failed | never |

int-send-skip is no fault: other producers come in between. After an unclean election acknowledged records may be gone,
and offsets come again: nothing of that partition is a fault then but made-up values and steps inside of one poll."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from replog.simulator.history import Deletion, Drained, History, Latest, Outcome, Poll, ProducerSend, Read, Seek
from replog.topic import TopicPartition

SHOWN = 48  # bytes of a value
_completed = attrgetter("completed_s")


class Anomaly(NamedTuple):
    """One contradiction in a history."""

    name: str
    partition: TopicPartition
    text: str

    @property
    def invariant(self) -> str:
        return _INVARIANTS.get(self.name, self.name)

    def __str__(self) -> str:
        return f"{self.name} in {self.partition}: {self.text}"


_INVARIANTS = {"inconsistent-offsets": "INV-17", "nonmonotonic-latest": "INV-18", "lost-write": "INV-11"}


def find_anomalies(history: History) -> list[Anomaly]:
    """Return every contradiction; an honest history has none."""
    facts = _Facts(history)
    return [
        *_bad_offsets(history),
        *_made_up(facts),
        *_inconsistent(facts),
        *_duplicates(facts),
        *_lost(facts),
        *_unseen(facts),
        *_stale_keys(facts),
        *_aborted_reads(facts),
        *_polls(facts),
        *_sends(history),
        *_latest(history),
    ]


Claim = tuple[TopicPartition, int, bytes, str]  # the last says that the value is at this offset


class _Facts:
    """A history, by partition and offset."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.sent: dict[tuple[TopicPartition, bytes], ProducerSend] = {(s.partition, s.value): s for s in history.sends}
        self.read: dict[TopicPartition, dict[int, dict[bytes, str]]] = {}  # offset to values to who read them first
        for operation in history.reads:
            if isinstance(operation, Poll):
                for record in operation.records:
                    self._note(record.partition, record.offset, record.value, operation.client)
        for drained in history.drained.values():
            for offset, value in drained.records:
                self._note(drained.partition, offset, value, "the last reader")
        self.log_starts = {tp: drained.start_offset for tp, drained in history.drained.items()}
        for tp, drained in history.drained_committed.items():  # it was read later, when retention may have taken more
            self.log_starts[tp] = max(self.log_starts[tp], drained.start_offset)
        self.held: dict[tuple[TopicPartition, int], ProducerSend] = {
            (s.partition, offset): s for offset, s in self.known()
        }

    def _note(self, partition: TopicPartition, offset: int, value: bytes, reader: str) -> None:
        self.read.setdefault(partition, {}).setdefault(offset, {}).setdefault(value, reader)

    def may_be_gone(self, partition: TopicPartition, offset: int) -> bool:
        """Return True if a deletion, retention or a cleaning may have removed the record."""
        return partition.topic in self.history.compacted or self.may_be_removed(partition, offset)

    def may_be_removed(self, partition: TopicPartition, offset: int) -> bool:
        """Return True if a deletion or retention may have removed the record."""
        history = self.history
        if partition.topic in history.deleted or partition in history.unclean:
            return True
        if partition.topic in history.retained:
            return offset < self.log_starts.get(partition, 1 << 62)
        if offset < history.committed_deleted.get(partition, -1):
            return True
        return any(_covers(deletion, partition, offset) for deletion in history.deletions)

    def readings(self) -> Iterator[Claim]:
        for partition, offsets in self.read.items():
            for offset, values in offsets.items():
                for value, reader in values.items():
                    yield partition, offset, value, reader

    def claims(self) -> Iterator[Claim]:
        """Yield the claims of readers, and of producers with acks=all; some come twice."""
        for partition, offset, value, reader in self.readings():
            yield partition, offset, value, f"{reader} read it"
        for send in self.promised():
            if send.offset >= 0:
                yield send.partition, send.offset, send.value, f"{send.client} was told so"

    def known(self) -> Iterator[tuple[int, ProducerSend]]:
        """Yield the offset and the send of each committed record; some come twice."""
        for partition, offset, value, _ in self.claims():
            if (send := self.sent.get((partition, value))) is not None:
                yield offset, send

    def promised(self) -> Iterator[ProducerSend]:
        """Yield the sends that acks=all acknowledged, which must not be lost."""
        return (send for send in self.history.acknowledgements if send.acks == -1)


def _covers(deletion: Deletion, partition: TopicPartition, offset: int) -> bool:
    """Return True if a deletion up to that offset may have removed the record. For -1 see `committed_deleted`: the
    answer has the low watermark of the last try, and an earlier one or a late copy may have deleted more."""
    return deletion.partition == partition and deletion.outcome is not Outcome.FAILED and offset < deletion.offset


def _bad_offsets(history: History) -> Iterator[Anomaly]:
    for send in history.acknowledgements:
        untold = send.offset == -1 and (send.acks == 0 or send.idempotent)
        if send.offset < 0 and not untold:
            yield Anomaly("bad-offset", send.partition, f"{_shown(send)} succeeded at offset {send.offset}")
    for latest in history.latest:
        if latest.offset < 0:
            yield Anomaly("bad-offset", latest.partition, f"{latest.client} was told the end offset {latest.offset}")
    for done in history.deletions:
        if done.outcome is Outcome.OK and done.low_watermark < max(0, done.offset):
            text = f"{done.client} deleted up to {done.offset}, and was told the low watermark {done.low_watermark}"
            yield Anomaly("bad-offset", done.partition, text)
    for operation in history.reads:
        if isinstance(operation, Poll):
            for record in operation.records:
                if record.offset < 0:
                    yield Anomaly("bad-offset", record.partition, f"{operation.client} read offset {record.offset}")


def _made_up(facts: _Facts) -> Iterator[Anomaly]:
    """A record that certainly failed was not appended (PR-12)."""
    for partition, offset, value, reader in facts.readings():
        send = facts.sent.get((partition, value))
        if send is None:
            yield Anomaly("made-up", partition, f"{reader} read {_text(value)} at {offset}; nobody sent it there")
        elif send.outcome is Outcome.FAILED:
            yield Anomaly("made-up", partition, f"{reader} read {_shown(send)} at {offset}; it failed: {send.error}")


def _inconsistent(facts: _Facts) -> Iterator[Anomaly]:
    """INV-17: no offset has two values."""
    claims: dict[tuple[TopicPartition, int], dict[bytes, str]] = {}
    for partition, offset, value, who in facts.claims():
        claims.setdefault((partition, offset), {}).setdefault(value, who)
    for (partition, offset), values in claims.items():
        if len(values) > 1 and partition not in facts.history.unclean:
            versions = ", ".join(f"{_text(value)} ({who})" for value, who in values.items())
            yield Anomaly("inconsistent-offsets", partition, f"offset {offset} is {versions}")


def _duplicates(facts: _Facts) -> Iterator[Anomaly]:
    places: dict[tuple[TopicPartition, bytes], dict[int, None]] = {}
    for partition, offset, value, _ in facts.claims():
        places.setdefault((partition, value), {})[offset] = None
    for (partition, value), held_at in places.items():
        send_or_none = facts.sent.get((partition, value))
        excused = send_or_none is not None and not send_or_none.idempotent
        excused |= min(held_at) < facts.history.passed_over.get(partition, 0)
        if len(held_at) > 1 and not excused and partition not in facts.history.unclean:
            yield Anomaly("duplicate", partition, f"{_text(value)} is at offsets {sorted(held_at)}")


def _lost(facts: _Facts) -> Iterator[Anomaly]:
    highest = {partition: max(offsets) for partition, offsets in facts.read.items()}
    for send in facts.promised():
        read = facts.read.get(send.partition, {})
        if not 0 <= send.offset <= highest.get(send.partition, -1) or send.offset in read:
            continue  # another value there is an inconsistent offset
        if not facts.may_be_gone(send.partition, send.offset):
            told = f"{_shown(send)} was acknowledged at {send.offset} and not read; {highest[send.partition]} was read"
            yield Anomaly("lost-write", send.partition, told)


def _unseen(facts: _Facts) -> Iterator[Anomaly]:
    """Yield each acknowledged record that the last readers did not find, by its value, since some offsets are -1."""
    history = facts.history
    for drained in (*history.drained.values(), *history.drained_committed.values()):
        there = dict.fromkeys(value for _, value in drained.records)
        for send in facts.promised():
            if send.partition != drained.partition or send.value in there:
                continue
            if send.offset < 0 and facts.log_starts[send.partition] > 0:
                continue
            if not facts.may_be_gone(send.partition, send.offset):
                span = f"from {drained.start_offset} to {drained.end_offset}"
                told = f"{_shown(send)} was acknowledged at offset {send.offset} and is not there in the end, {span}"
                yield Anomaly("unseen", send.partition, told)


def _stale_keys(facts: _Facts) -> Iterator[Anomaly]:
    """CL-5: in a compacted topic the last reader finds the latest known record of each key, unless a tombstone may
    have followed it."""
    latest: dict[tuple[TopicPartition, bytes | None], tuple[int, ProducerSend]] = {}
    deleted = {
        (send.partition, send.key)
        for send in facts.history.sends
        if send.tombstone and send.offset < 0 and send.outcome is not Outcome.FAILED
    }
    for offset, send in facts.known():
        if send.partition.topic in facts.history.compacted and _counts(send):
            of_key = send.partition, send.key
            latest[of_key] = max(latest.get(of_key, (-1, send)), (offset, send), key=lambda known: known[0])
    for (partition, key), (offset, send) in latest.items():
        drained = facts.history.drained.get(partition)
        if drained is None or send.tombstone or (partition, key) in deleted or facts.may_be_removed(partition, offset):
            continue
        if (offset, send.value) not in drained.records:
            yield Anomaly("stale-key", partition, f"{_shown(send)} at {offset} is the latest of {key!r}, and is gone")


def _aborted_reads(facts: _Facts) -> Iterator[Anomaly]:
    for poll in facts.history.reads:
        if not isinstance(poll, Poll) or not poll.committed:
            continue
        for record in poll.records:
            send = facts.sent.get((record.partition, record.value))
            transaction = send.transaction if send is not None else None
            if transaction is not None and not (transaction.committed and transaction.decided_s <= poll.completed_s):
                text = f"{poll.client} read {_text(record.value)} at {record.offset}, of {transaction}"
                yield Anomaly("aborted-read", record.partition, text)


def _counts(send: ProducerSend) -> bool:
    """Return True if READ_COMMITTED readers may see it."""
    return send.transaction is None or bool(send.transaction.committed)


def _polls(facts: _Facts) -> Iterator[Anomaly]:
    """Check that each consumer got the records of a partition in order and without gaps."""
    last: dict[tuple[str, TopicPartition], int] = {}
    for operation in facts.history.reads:
        if isinstance(operation, Seek):
            last.pop((operation.client, operation.partition), None)
            continue
        inside: dict[TopicPartition, int] = {}
        for record in operation.records:
            key = operation.client, record.partition
            before = last.get(key)
            prefix = "int-" if record.partition in inside else ""
            last[key] = inside[record.partition] = record.offset
            if before is not None and record.offset != before + 1:
                yield from _step(facts, operation, record, before, prefix)
    for drained in facts.history.drained.values():
        yield from _holes(facts, drained)


def _step(facts: _Facts, poll: Poll, record: Read, before: int, prefix: str) -> Iterator[Anomaly]:
    text = f"{poll.client} read offset {record.offset} after {before}"
    unclean = record.partition in facts.history.unclean
    if record.offset <= before:
        if prefix or not unclean:
            yield Anomaly(f"{prefix}nonmonotonic-poll", record.partition, text)
        return
    passed = range(before + 1, record.offset)
    if (prefix or not unclean) and not _all_gone(facts, record.partition, passed, committed=poll.committed):
        yield Anomaly(f"{prefix}poll-skip", record.partition, text)


def _all_gone(facts: _Facts, partition: TopicPartition, offsets: range, *, committed: bool = False) -> bool:
    """Return True if a reader rightly skipped these offsets: the records were removed, or are markers of transactions,
    or, for READ_COMMITTED (`committed`), were aborted. Deletions remove a prefix, so the last offset decides."""
    if partition.topic in facts.history.compacted or facts.may_be_gone(partition, offsets[-1]):
        return True
    held = [facts.held.get((partition, offset)) for offset in offsets]
    return partition.topic in facts.history.transactional and not any(
        send is not None and (_counts(send) or not committed) for send in held
    )


def _holes(facts: _Facts, drained: Drained) -> Iterator[Anomaly]:
    if drained.partition.topic in facts.history.compacted:
        return
    offsets = [offset for offset, _ in drained.records]
    whole = range(drained.start_offset, drained.end_offset)
    missing = sorted(set(whole).difference(offsets))
    if offsets != [offset for offset in whole if offset not in missing] or not all(
        _all_gone(facts, drained.partition, range(offset, offset + 1)) for offset in missing
    ):
        records = f"{len(offsets)} records, {offsets[:1]} to {offsets[-1:]}"
        text = f"the last reader found {records}, from {drained.start_offset} to {drained.end_offset}"
        yield Anomaly("poll-skip", drained.partition, text)


def _sends(history: History) -> Iterator[Anomaly]:
    """PS-2: an idempotent producer's records keep their order. Without idempotence a retry may overtake."""
    last: dict[tuple[str, TopicPartition], ProducerSend] = {}
    for send in history.sends:
        if send.outcome is not Outcome.OK or send.offset < 0 or not send.idempotent:
            continue
        before = last.get((send.client, send.partition))
        if before is not None and send.offset <= before.offset and send.partition not in history.unclean:
            together = before.completed_s == send.completed_s
            yield Anomaly(
                "int-nonmonotonic-send" if together else "nonmonotonic-send",
                send.partition,
                f"{_shown(send)} is at {send.offset}, {_shown(before)} before it at {before.offset}",
            )
        last[send.client, send.partition] = send


def _latest(history: History) -> Iterator[Anomaly]:
    """INV-18: a client that asks after it got an answer gets no lower end offset than that."""
    answered: dict[tuple[str, TopicPartition], list[Latest]] = {}  # the highest answer by each `completed_s`
    for latest in sorted(history.latest, key=_completed):
        most_by_then = answered.setdefault((latest.client, latest.partition), [])
        slot = bisect_right(most_by_then, latest.invoked_s, key=_completed)
        most = most_by_then[slot - 1] if slot else latest
        if latest.offset < most.offset and latest.partition not in history.unclean:
            yield Anomaly(
                "nonmonotonic-latest",
                latest.partition,
                f"{latest.client} was told the end offset {latest.offset} at {latest.completed_s:.3f} s, and "
                f"{most.offset} by {most.completed_s:.3f} s",
            )
        before = most_by_then[-1] if most_by_then else latest
        most_by_then.append(
            latest if latest.offset >= before.offset else replace(before, completed_s=latest.completed_s)
        )


def _shown(send: ProducerSend) -> str:
    acks = "all" if send.acks == -1 else send.acks
    return f"{_text(send.value)} ({send.client}, acks={acks})"


def _text(value: bytes) -> str:
    return repr(value[:SHOWN]) + ("…" if len(value) > SHOWN else "")
