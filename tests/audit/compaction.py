"""A case of a compacted topic: one partition whose replicas were cleaned by the log's own cleaner, each on its own, up
to other offsets and at other times; alone, or with something wrong below or above what was cleaned.

Everything is drawn from a seed. What must be found is worked out from the history and from what was done.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from replog.log.errors import LogUncleanable
from replog.log.formats.batch import CONTROL, HEADER_SIZE, iterate_batches
from replog.log.formats.checkpoint import CLEANER_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT
from replog.log.formats.control_batch import EndTransactionMarker, build_end_transaction_marker
from replog.log.formats.records import iterate_records
from replog.log.log import Log
from spark_jobs.audit.findings import AuditFinding
from tests.audit.cases import REPLICAS, Impossible
from tests.audit.history import NOW
from tests.audit.judge import told
from tests.audit.replica_files import Place, cut_out, logs, places
from tests.damage.vocabulary import flip, overwrite, seal
from tests.replog.log.batches import client_batch, open_log, stamped
from tests.replog.log.compaction.compacting import clean

RETENTION = 1000  # ms, of tombstones and markers


@dataclass(frozen=True)
class Batch:
    """A batch of the history. `end` is how the transaction that it belongs to ends: True is a commit."""

    data: bytes
    first: int
    records: tuple[tuple[bytes, bytes | None], ...]  # keys and values; none for a marker
    producer: int | None = None

    @property
    def last(self) -> int:
        return self.first + max(1, len(self.records)) - 1


@dataclass(frozen=True)
class Wrong:
    """A finding that there must be."""

    name: str
    kinds: tuple[str, ...]
    replica: int | None
    first: int
    last: int | None  # None: not said here

    def is_told_by(self, finding: AuditFinding) -> bool:
        return (
            finding.kind in self.kinds
            and finding.first == self.first
            and self.last in (None, finding.last)
            and self.replica in (None, finding.wrong)
        )


@dataclass
class Held:
    replica: int
    directory: Path
    mark: int = 0
    end: int = 0
    cleaned_to: int = 0

    def checkpoints(self) -> dict[str, int | None]:
        """What its log directory says of it."""
        return {HIGH_WATERMARK_CHECKPOINT: self.mark, CLEANER_CHECKPOINT: self.cleaned_to or None}

    def batches(self) -> list[Place]:
        return places(self.directory)

    def offsets(self) -> dict[int, Place]:
        """Where its records are, by offset, markers left out."""
        places = {}
        for path in logs(self.directory):
            data = path.read_bytes()
            for position, header in iterate_batches(data):
                if not header.attributes & CONTROL:
                    place = Place(path, position, header)
                    places |= {record.offset: place for record in iterate_records(data, header, position)}
        return places


@dataclass
class CompactedCase:
    seed: int
    history: list[Batch]
    void: set[int]  # offsets of records of aborted transactions
    held: dict[int, Held] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    wrong: list[Wrong] = field(default_factory=list)

    @property
    def topic(self) -> str:
        return f"compacted-{self.seed}"

    @property
    def cleaned_to(self) -> int:
        return max(held.cleaned_to for held in self.held.values())

    def records(self) -> dict[int, tuple[bytes, bytes | None]]:
        return {b.first + at: record for b in self.history for at, record in enumerate(b.records)}

    def newest(self) -> dict[bytes, int]:
        """The offset of the newest record of each key below what was cleaned, void ones left out."""
        newest = {}
        for offset, (key, _) in self.records().items():
            if offset < self.cleaned_to and offset not in self.void:
                newest[key] = offset
        return newest

    def untold(self) -> set[bytes]:
        """Keys of which an audit may not know the newest record: of a transaction that ends above what was cleaned, or
        in the batch there."""
        keys: set[bytes] = set()
        ends: dict[int | None, int] = {}
        for batch in reversed(self.history):
            if not batch.records:
                ends[batch.producer] = batch.first
            elif batch.first == self.cleaned_to or batch.first < self.cleaned_to <= ends.get(batch.producer, 0):
                keys |= {key for key, _ in batch.records}
        return keys

    def judge(self, findings: list[AuditFinding], level: str) -> list[str]:
        """What is wrong with the findings; levels below `deep` may see less, but nothing else."""
        left, missed = list(findings), []
        for wrong in self.wrong:
            exact = [finding for finding in left if wrong.is_told_by(finding)]
            if exact:
                left.remove(exact[0])
            elif level == "deep":
                missed.append(f"not found: {wrong}")
        if level != "deep" and self.wrong:
            return []
        return missed + [f"found though it is not so: {told(finding)}" for finding in left]

    def __str__(self) -> str:
        lines = [f"compacted case {self.seed}: {self.history[-1].last + 1} offsets"]
        for held in self.held.values():
            lines.append(
                f"  replica {held.replica}: cleaned to {held.cleaned_to}, high watermark {held.mark}, end {held.end}"
            )
        return "\n".join([*lines, *(f"  {what}" for what in self.done or ["nothing was done"])])


def data_of(place: Place) -> bytes:
    return place.path.read_bytes()[place.position : place.position + place.header.size]


# -- the history, and the replicas that were made of it


def compacted_history(rng: random.Random) -> tuple[list[Batch], set[int]]:
    """Batches of keyed records, a tenth of them tombstones; two producers may have transactions among them."""
    keys = [b"key-%d" % n for n in range(rng.randint(4, 16))]
    batches: list[Batch] = []
    open_: dict[int, list[int]] = {}  # producer → offsets of its transaction
    sequences = {7: 0, 8: 0}
    void: set[int] = set()
    epoch, offset, now = rng.randint(0, 3), 0, NOW
    transactional = rng.random() < 0.5

    def end(producer: int) -> None:
        nonlocal offset
        committed = rng.random() < 0.5
        if not committed:
            void.update(open_[producer])
        del open_[producer]
        marker = build_end_transaction_marker(
            EndTransactionMarker(committed, 0), producer_id=producer, producer_epoch=0, timestamp=now
        )
        batches.append(Batch(stamped(marker, offset, epoch), offset, (), producer))
        offset += 1

    for _ in range(rng.randint(30, 70)):
        if rng.random() < 0.1:
            epoch += rng.randint(1, 3)
        producer = rng.choice((7, 8)) if transactional and rng.random() < 0.5 else None
        if producer in open_ and rng.random() < 0.4:
            assert producer is not None
            end(producer)
            continue
        records = tuple(
            (rng.choice(keys), None if rng.random() < 0.15 else rng.randbytes(rng.randint(8, 60)))
            for _ in range(rng.randint(1, 4))
        )
        fields: dict[str, int] = {"codec": rng.choice((0, 0, 1, 4))}
        if producer is not None:
            fields |= {"transactional": 1, "producer_id": producer, "producer_epoch": 0}
            fields["base_sequence"] = sequences[producer]
            sequences[producer] += len(records)
            open_.setdefault(producer, []).extend(range(offset, offset + len(records)))
        times = [now + rng.randint(0, 400) for _ in records]
        data = stamped(client_batch(*records, timestamps=times, **fields), offset, epoch)
        batches.append(Batch(data, offset, records, producer))
        offset, now = batches[-1].last + 1, now + rng.randint(-300, 900)
    for producer in list(open_):
        end(producer)
    return batches, void


def write_replica(case: CompactedCase, held: Held, rng: random.Random, batches: list[bytes], *, cleanings: int) -> None:
    settings = {"segment_bytes": rng.randint(500, 2500), "index_interval_bytes": rng.randint(50, 400)}
    log = open_log(held.directory, cleanup_policy="compact", delete_retention_ms=RETENTION, **settings)
    at = sorted(rng.sample(range(len(batches)), min(cleanings, len(batches))))
    checkpoint, now = None, 0
    for number, data in enumerate(batches):
        log.append_as_follower(data)
        if number in at:
            now += rng.choice((0, RETENTION // 2, 2 * RETENTION))
            checkpoint = _clean(log, now, checkpoint, rng.choice((1 << 20, 1 << 20, 24 * 12)))
            if rng.random() < 0.3:  # once more: what waited for that may go now
                checkpoint = _clean(log, now + 2 * RETENTION, checkpoint, 1 << 20)
    held.end = log.log_end_offset
    held.cleaned_to = checkpoint or 0
    held.mark = held.end
    log.update_high_watermark(held.end)
    log.close()


def _clean(log: Log, now_ms: int, checkpoint: int | None, map_bytes: int) -> int | None:
    log.update_high_watermark(log.log_end_offset)
    log.roll()
    try:
        return clean(log, now_ms, checkpoint=checkpoint, map_bytes=map_bytes)
    except LogUncleanable:
        return checkpoint


def make_compacted(seed: int, directories: dict[int, Path]) -> CompactedCase:
    """Make the partition `compacted-<seed>`-0 in the log directories."""
    rng = random.Random(seed)
    history, void = compacted_history(rng)
    case = CompactedCase(seed, history, void)
    everything = [batch.data for batch in history]
    for replica in sorted(rng.sample(REPLICAS, rng.choice((2, 3, 3)))):
        held = case.held[replica] = Held(replica, directories[replica] / f"{case.topic}-0")
        before = [other for other in case.held.values() if other.cleaned_to]
        if before and rng.random() < 0.2:
            source = rng.choice(before)
            case.done.append(f"replica {replica} was copied from {source.replica} when that was clean")
            write_replica(case, held, rng, [data_of(place) for place in source.batches()], cleanings=0)
        else:
            lags = len(case.held) > 1 and rng.random() < 0.2
            kept = everything[: rng.randint(len(everything) // 3, len(everything))] if lags else everything
            write_replica(case, held, rng, kept, cleanings=rng.randint(0, 3))
    faults: list[Callable[[CompactedCase, Held, random.Random], Wrong]] = [
        lost_above,
        changed_above,
        rotten_below,
        lost_below,
        changed_below,
        tombstone_lost,
    ]
    if rng.random() >= 0.8:
        return case
    tried = (
        (step, held)
        for step in rng.sample(faults, len(faults))
        for held in rng.sample(list(case.held.values()), len(case.held))
    )
    for step, held in tried:
        with suppress(Impossible):
            wrong = step(case, held, rng)
            case.wrong.append(wrong)
            case.done.append(f"replica {held.replica}: {wrong.name}")
            break
    return case


# -- what can be wrong


def _place(case: CompactedCase, held: Held, rng: random.Random, *, below: bool) -> list[Place]:
    """Batches below what was cleaned, or above it, that all replicas know to be committed; but not the last."""
    end, common = case.cleaned_to, min(other.mark for other in case.held.values())
    places = [
        place
        for place in held.batches()[:-1]
        if place.header.records_count
        and (place.header.base_offset < end if below else end <= place.header.base_offset < common)
    ]
    if not places or not end:
        raise Impossible
    return rng.sample(places, len(places))


def lost_above(case: CompactedCase, held: Held, rng: random.Random) -> Wrong:
    header = _place(case, held, rng, below=False)[0].header
    cut_out(held.directory, header.base_offset)
    return Wrong("batch lost above", ("COMMITTED_LOSS",), held.replica, header.base_offset, header.last_offset)


def changed_above(case: CompactedCase, held: Held, rng: random.Random) -> Wrong:
    place = _place(case, held, rng, below=False)[0]
    overwrite(place.path, place.position + 35, (place.header.max_timestamp + 1).to_bytes(8, "big"))
    seal(place.path)
    wrong = held.replica if len(case.held) > 2 else None
    return Wrong("batch changed above", ("VALUE_MISMATCH",), wrong, place.header.base_offset, place.header.last_offset)


def rotten_below(case: CompactedCase, held: Held, rng: random.Random) -> Wrong:
    place = _place(case, held, rng, below=True)[0]
    flip(place.path, place.position + rng.randrange(HEADER_SIZE, place.header.size), 0x10)
    return Wrong("batch rotten below", ("BIT_ROT",), held.replica, place.header.base_offset, None)


def lost_below(case: CompactedCase, held: Held, rng: random.Random) -> Wrong:
    """Of a key's newest record."""
    newest = set(case.newest().values())
    return _lost(case, held, rng, lambda offset, value: value is not None and offset in newest, "batch lost below")


def tombstone_lost(case: CompactedCase, held: Held, rng: random.Random) -> Wrong:
    """Of a key of which the replica still has an older value."""
    newest = set(case.newest().values())
    return _lost(case, held, rng, lambda offset, value: value is None and offset in newest, "tombstone lost")


def _lost(
    case: CompactedCase, held: Held, rng: random.Random, wanted: Callable[[int, bytes | None], bool], name: str
) -> Wrong:
    """Cut out a batch that has a record as `wanted`. Missed are the newest of their keys: of tombstones, those of which
    an older value is left."""
    records, newest, there = case.records(), case.newest(), held.offsets()
    others = [other for other in case.held.values() if other is not held]
    kept = {offset for other in others for offset in other.offsets() if other.mark >= case.cleaned_to}
    for place in _place(case, held, rng, below=True):
        gone = [offset for offset, at in there.items() if at == place and offset == newest.get(records[offset][0])]
        left = [o for o, at in there.items() if at != place and o not in case.void and records[o][1] is not None]
        revived = {o for o in gone if any(older < o and records[older][0] == records[o][0] for older in left)}
        missed = sorted(o for o in gone if o < held.mark and (records[o][1] is not None or o in revived))
        if case.untold() & {records[offset][0] for offset, at in there.items() if at == place}:
            continue
        if kept.issuperset(gone) and any(wanted(offset, records[offset][1]) for offset in missed):
            cut_out(held.directory, place.header.base_offset)
            return Wrong(name, ("COMMITTED_LOSS",), held.replica, missed[0], missed[-1])
    raise Impossible


def changed_below(case: CompactedCase, held: Held, rng: random.Random) -> Wrong:
    """The value of a record that another replica also has, in a batch that is sound."""
    others = [set(other.offsets()) for other in case.held.values() if other is not held]
    for place in _place(case, held, rng, below=True):
        data = data_of(place)
        for record in iterate_records(data, place.header):
            if place.header.attributes & (CONTROL | 7) or not record.value or record.offset >= case.cleaned_to:
                continue
            against = sum(record.offset in offsets for offsets in others)
            if against:
                flip(place.path, place.position + data.index(record.value))
                seal(place.path)
                wrong = held.replica if against > 1 else None
                return Wrong("record changed below", ("VALUE_MISMATCH",), wrong, record.offset, record.offset)
    raise Impossible
