"""What is wrong with the log itself, class by class, and the lists of all faults; what lies beside it is in `lies`."""

import contextlib
import random
import shutil
from dataclasses import replace

from replog.log.batch import HEADER_SIZE, BatchHeader, parse_header
from replog.log.errors import CorruptRecord
from tests.audit.cases import COMMITTED_LOSS, GAP, NOW, Case, Cause, Held, Impossible, Step, entry, pick
from tests.audit.lies import (
    epoch_that_begins_elsewhere,
    index_that_ends_within_an_entry,
    lying_digest,
    lying_digest_offset,
    lying_offset,
    lying_position,
    lying_time,
    lying_time_offset,
    missing_epoch,
    no_high_watermark,
    other_epoch,
    unreadable_epochs,
    unreadable_index,
    unreadable_log,
    unusable_epochs,
)
from tests.audit.replica_files import (
    Entry,
    Place,
    cut_out,
    is_visited,
    logs,
    overwrite,
    places,
    remove_segment,
    truncate,
)

# -- replicas that were told something else: written by the log, so that every file agrees with every other


def _rewritten(case: Case, held: Held, rng: random.Random) -> int:
    """Which entry to change: one that this replica and another know to be committed."""
    others = case.others(held.replica)
    bound = min(held.mark or 0, max(other.mark or 0 for other in others))
    place = pick(case, held, rng, bound)
    first = place.header.base_offset
    if not any(other.has(first) and (other.mark or 0) > first for other in others):
        raise Impossible
    return next(number for number, one in enumerate(held.entries) if one.first == first)


def _rewrite(held: Held, changed: list[Entry]) -> None:
    held.changed = changed
    held.write()


def value_of_the_same_size(case: Case, held: Held, rng: random.Random) -> None:
    number = _rewritten(case, held, rng)
    old = held.entries[number]
    case.reserve(old.first, old.last)
    held.entries[number] = replace(old, records=tuple((time, rng.randbytes(len(value))) for time, value in old.records))
    _rewrite(held, held.entries[number : number + 1])
    case.causes.append(Cause("value, same size", "VALUE_MISMATCH", held.replica, old.first, old.last))


def value_of_another_size(case: Case, held: Held, rng: random.Random) -> None:
    number = _rewritten(case, held, rng)
    old = held.entries[number]
    case.reserve(old.first, old.last)
    held.entries[number] = replace(old, records=tuple((time, value + b"!") for time, value in old.records))
    _rewrite(held, held.entries[number : number + 1])
    case.causes.append(Cause("value, other size", "VALUE_MISMATCH", held.replica, old.first, old.last))


def other_batches(case: Case, held: Held, rng: random.Random) -> None:
    """The same records, cut into other batches."""
    number = _rewritten(case, held, rng)
    one, two = held.entries[number : number + 2] if number + 1 < len(held.entries) else (None, None)
    if one is None or two is None or one.epoch != two.epoch or len(one.records) + len(two.records) < 3:
        raise Impossible
    if two.last >= min(held.mark or 0, held.end):
        raise Impossible
    records = one.records + two.records
    cut = rng.choice([at for at in range(1, len(records)) if at != len(one.records)])
    case.reserve(one.first, two.last)
    held.entries[number : number + 2] = [
        replace(one, records=records[:cut]),
        replace(two, records=records[cut:], first=one.first + cut),
    ]
    _rewrite(held, held.entries[number : number + 2])
    case.causes.append(Cause("other batches", "VALUE_MISMATCH", held.replica, one.first, None, until=two.last))


def divergent_suffix(case: Case, held: Held, rng: random.Random) -> None:
    """It followed another leader from some offset on, and took that for committed."""
    number = _rewritten(case, held, rng)
    old, end = held.entries[number], held.end
    case.reserve(old.first, end + 1000)
    before = held.entries[number - 1].epoch if number else 0
    epoch = rng.choice((before, old.epoch, old.epoch + 1, held.entries[-1].epoch + 1))
    held.entries = held.entries[:number]
    offset = old.first
    while offset < end:
        held.entries.append(entry(rng, offset, epoch, rng.randint(1, 4), NOW))
        offset = held.entries[-1].last + 1
    _rewrite(held, held.entries[number:])
    until = max(one.end for one in case.held.values()) - 1
    case.causes.append(Cause("divergent suffix", "VALUE_MISMATCH", held.replica, old.first, None, until=until))


def batch_of_another_epoch(case: Case, held: Held, rng: random.Random) -> None:
    """Where one epoch follows another, a batch of the one stands under the other."""
    limit = min(held.mark or 0, max(other.mark or 0 for other in case.others(held.replica)))
    pairs = [
        (number, epoch)
        for number in range(1, len(held.entries))
        for epoch in (held.entries[number - 1].epoch,)
        if epoch != held.entries[number].epoch and held.log_start <= held.entries[number].first < limit
    ]
    if not pairs:
        raise Impossible
    number, epoch = rng.choice(pairs)
    old = held.entries[number]
    if not any(o.has(old.first) and (o.mark or 0) > old.first for o in case.others(held.replica)):
        raise Impossible
    case.reserve(old.first, old.last)
    held.entries[number] = replace(old, epoch=epoch)
    _rewrite(held, held.entries[number : number + 1])
    case.causes.append(Cause("batch of another epoch", "EPOCH_MISMATCH", held.replica, old.first, old.last))


REWRITES: list[Step] = [
    value_of_the_same_size,
    value_of_another_size,
    other_batches,
    divergent_suffix,
    batch_of_another_epoch,
]


def changed_epoch(case: Case, held: Held, rng: random.Random) -> None:
    """The epoch in a batch's header, which no CRC covers (RB-2)."""
    _rewritten(case, held, rng)
    place = pick(case, held, rng, held.mark)
    first = place.header.base_offset
    if not any(o.has(first) and (o.mark or 0) > first for o in case.others(held.replica)):
        raise Impossible
    case.reserve(first, place.header.last_offset)
    epoch = rng.choice((place.header.leader_epoch + 1, place.header.leader_epoch + 40, 0))
    if epoch == place.header.leader_epoch:
        raise Impossible
    held.changed = [one for one in held.entries if one.first == first]
    _patch(place, 12, epoch.to_bytes(4, "big"))
    last, visited = place.header.last_offset, is_visited(place)
    case.causes.append(
        Cause("changed epoch", "EPOCH_MISMATCH", held.replica, first, last, visited=visited, contradicted=True)
    )


# -- bytes that changed


def _rot(case: Case, held: Held, rng: random.Random, name: str, at: range) -> None:
    """Flip a bit of a batch, in the bytes `at`, or of its records."""
    place = pick(case, held, rng)
    first, last = place.header.base_offset, place.header.last_offset
    in_file = [other for other in places(held.directory) if other.path == place.path]
    at_end = place == in_file[-1]
    batch = bytearray(place.path.read_bytes()[place.position : place.position + place.header.size])
    batch[rng.choice(at if at.stop else range(HEADER_SIZE, len(batch)))] ^= 1 << rng.randrange(8)
    says: BatchHeader | None = None
    with contextlib.suppress(CorruptRecord):
        says = parse_header(bytes(batch))
    leads_away = says is None or says.size != len(batch)  # what follows cannot be found for sure
    _not_torn(held, place, leads_away)
    until = in_file[-1].header.last_offset if leads_away else last
    case.reserve(first, until)
    overwrite(place.path, place.position, bytes(batch))
    held.rotten.append((first, until))
    may_be: tuple[str, ...] = ()
    if says is not None and place.position + says.size > place.path.stat().st_size:
        may_be = (COMMITTED_LOSS, GAP)  # as if the rest had not been written
    elif at_end and place.path == logs(held.directory)[-1] and name == "rotten base offset":
        may_be = (COMMITTED_LOSS, GAP)  # no batch follows that tells where this one should be
    ends = not leads_away and not may_be and (not at_end or says is None or says.last_offset == last)
    case.causes.append(
        Cause(
            name,
            "BIT_ROT",
            held.replica,
            first,
            last if ends else None,
            until=None if ends or at_end else until,
            position=place.position,
            visited=is_visited(place),
            may_be=may_be,
        )
    )


def _not_torn(held: Held, place: Place, unreadable: bool) -> None:
    """A batch behind the high watermark that cannot be read at all looks like a torn write."""
    if unreadable and place.header.last_offset >= (held.mark or 0) and place.path == logs(held.directory)[-1]:
        raise Impossible


def rotten_record(case: Case, held: Held, rng: random.Random) -> None:
    _rot(case, held, rng, "rotten record", range(0))


def rotten_header(case: Case, held: Held, rng: random.Random) -> None:
    """A field that the CRC covers: attributes, last offset, timestamps, producer, number of records."""
    _rot(case, held, rng, "rotten header", range(21, HEADER_SIZE))


def rotten_crc(case: Case, held: Held, rng: random.Random) -> None:
    _rot(case, held, rng, "rotten CRC", range(17, 21))


def rotten_length(case: Case, held: Held, rng: random.Random) -> None:
    _rot(case, held, rng, "rotten length", range(8, 12))


def rotten_magic(case: Case, held: Held, rng: random.Random) -> None:
    _rot(case, held, rng, "rotten magic", range(16, 17))


def rotten_base_offset(case: Case, held: Held, rng: random.Random) -> None:
    _rot(case, held, rng, "rotten base offset", range(8))


def zeros(case: Case, held: Held, rng: random.Random) -> None:
    """A piece of the file that never reached the disk; it may end in another batch."""
    place = pick(case, held, rng)
    in_file = [other for other in places(held.directory) if other.path == place.path]
    size = place.path.stat().st_size
    begin = place.position + rng.randrange(HEADER_SIZE, place.header.size)
    end = min(size, begin + rng.randint(20, 300))
    if not any(place.path.read_bytes()[begin : min(end, place.position + place.header.size)]):
        raise Impossible
    _not_torn(held, place, end >= place.position + place.header.size)
    case.reserve(place.header.base_offset, in_file[-1].header.last_offset)
    overwrite(place.path, begin, bytes(end - begin))
    held.rotten.append((place.header.base_offset, in_file[-1].header.last_offset))
    first, position, until = place.header.base_offset, place.position, in_file[-1].header.last_offset
    beyond = end >= position + place.header.size + 12  # as far as the length of the next batch
    cause = Cause("zeros", "BIT_ROT", held.replica, first, None, until=until, position=position, visited=beyond)
    case.causes.append(cause)


# -- batches that are gone


def _lost(case: Case, held: Held, name: str, first: int, last: int) -> None:
    held.lost.append((first, last))
    case.causes.append(Cause(name, COMMITTED_LOSS, held.replica, first, last))


def lost_batch(case: Case, held: Held, rng: random.Random) -> None:
    place = pick(case, held, rng)
    first, last = place.header.base_offset, place.header.last_offset
    if last + 1 >= held.end:
        raise Impossible  # that would be a tail
    case.reserve(first, last)
    cut_out(held.directory, first)
    _lost(case, held, "lost batch", first, last)


def lost_tail(case: Case, held: Held, rng: random.Random) -> None:
    place = pick(case, held, rng, held.mark)
    first = place.header.base_offset
    if held.mark is None:
        raise Impossible
    case.reserve(first, held.end + 1000)
    truncate(held.directory, first)
    held.lost.append((first, held.end))
    case.causes.append(Cause("lost tail", COMMITTED_LOSS, held.replica, first, held.mark - 1))


def lost_segment(case: Case, held: Held, rng: random.Random) -> None:
    """From the middle. That a first one is gone cannot be told from retention."""
    paths = logs(held.directory)
    if len(paths) < 3:
        raise Impossible
    path = rng.choice([one for one in paths[1:-1] if int(one.stem) >= held.log_start] or paths[:1])
    last = int(paths[paths.index(path) + 1].stem) - 1
    if path == paths[0]:
        raise Impossible
    case.reserve(int(path.stem), last)
    remove_segment(path)
    _lost(case, held, "lost segment", int(path.stem), last)


def emptied_segment(case: Case, held: Held, rng: random.Random) -> None:
    paths = logs(held.directory)
    path = rng.choice(paths)
    if path == paths[-1] or int(path.stem) < held.log_start:
        raise Impossible
    last = int(paths[paths.index(path) + 1].stem) - 1
    case.reserve(int(path.stem), last)
    path.write_bytes(b"")
    _lost(case, held, "emptied segment", int(path.stem), last)


def lost_first_segment(case: Case, held: Held, rng: random.Random) -> None:
    paths = logs(held.directory)
    if len(paths) < 2 or held.delete_below:
        raise Impossible
    last = int(paths[1].stem) - 1
    case.reserve(int(paths[0].stem), last)
    remove_segment(paths[0])
    held.start = last + 1
    case.causes.append(Cause("lost first segment", "", held.replica, None, None))


def lost_replica(case: Case, held: Held, rng: random.Random) -> None:
    """Only its high watermark remains in the checkpoint."""
    if held.mark is None or held.mark <= held.log_start:
        raise Impossible
    case.reserve(0, held.end + 1000)
    shutil.rmtree(held.directory)
    held.lost.append((0, held.end))
    first = held.log_start if held.start_named else 0
    case.causes.append(Cause("lost replica", COMMITTED_LOSS, held.replica, first, held.mark - 1))


def gap(case: Case, held: Held, rng: random.Random) -> None:
    """The same batch is gone everywhere."""
    place = pick(case, held, rng)
    first, last = place.header.base_offset, place.header.last_offset
    holders = [one for one in case.held.values() if one.has(first)]
    exact = [(first, last) in [(e.first, e.last) for e in one.entries] and one.end > last + 1 for one in holders]
    touched = {cause.replica for cause in case.causes}
    if not all(exact) or any(one.replica in touched or one.log_start > first for one in holders):
        raise Impossible
    case.reserve(first, last)
    for one in holders:
        cut_out(one.directory, first)
        one.lost.append((first, last))
        case.causes.append(Cause("gap", GAP, one.replica, first, last))


def repeated_batch(case: Case, held: Held, rng: random.Random) -> None:
    """A batch stands there twice: behind itself, or at the end of the segment before its own."""
    place = pick(case, held, rng)
    first, last = place.header.base_offset, place.header.last_offset
    case.reserve(first, last)
    before = [path for path in logs(held.directory) if path < place.path]
    data = place.path.read_bytes()
    end = place.position + place.header.size
    batch = data[place.position : end]
    if place.position == 0 and before:
        before[-1].write_bytes(before[-1].read_bytes() + batch)
    else:
        place.path.write_bytes(data[:end] + batch + data[end:])
    case.causes.append(Cause("repeated batch", GAP, held.replica, first, last))


DAMAGES: list[Step] = [
    changed_epoch,
    rotten_record,
    rotten_header,
    rotten_crc,
    rotten_length,
    rotten_magic,
    rotten_base_offset,
    zeros,
    lost_batch,
    lost_tail,
    lost_segment,
    emptied_segment,
    lost_first_segment,
    lost_replica,
    gap,
    repeated_batch,
    lying_position,
    lying_offset,
    lying_time,
    lying_time_offset,
    lying_digest,
    lying_digest_offset,
    index_that_ends_within_an_entry,
    epoch_that_begins_elsewhere,
    other_epoch,
    missing_epoch,
    unusable_epochs,
    unreadable_log,
    unreadable_index,
    unreadable_epochs,
    no_high_watermark,
]


def _patch(place: Place, at: int, data: bytes) -> None:
    overwrite(place.path, place.position + at, data)
