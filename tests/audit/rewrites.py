"""Replicas that were told something else: written by the log, so that every file agrees with every other."""

import random
from dataclasses import replace

from tests.audit.cases import Case, Cause, Held, Impossible, Step, pick
from tests.audit.expected import Outlook
from tests.audit.history import CODECS, NOW, Entry, entry
from tests.audit.replica_files import is_visited
from tests.damage.vocabulary import overwrite


def _rewritten(case: Case, held: Held, rng: random.Random) -> int:
    """Which entry to change: one that this replica and another know to be committed."""
    others = case.others(held.replica)
    place = pick(case, held, rng, min(held.mark or 0, max(other.mark or 0 for other in others)))
    first = place.header.base_offset
    if not any(other.wrote(first) and (other.mark or 0) > first for other in others):
        raise Impossible
    return next(number for number, one in enumerate(held.entries) if one.first == first)


def _rewrite(case: Case, held: Held, name: str, number: int, *changed: Entry) -> None:
    """Write these entries instead of as many, from that number on."""
    case.reserve(held.replica, changed[0].first, changed[-1].last)
    held.entries[number : number + len(changed)] = changed
    held.write()
    case.causes.append(Cause(name, "VALUE_MISMATCH", held.replica, changed[0].first, changed[-1].last))


def value_of_the_same_size(case: Case, held: Held, rng: random.Random) -> None:
    """Of a control marker: that it aborts what others have committed, or the other way round."""
    number = _rewritten(case, held, rng)
    old = held.entries[number]
    records = tuple((time, rng.randbytes(len(value))) for time, value in old.records)
    changed = replace(old, records=records) if old.commits is None else replace(old, commits=not old.commits)
    _rewrite(case, held, "value, same size", number, changed)


def value_of_another_size(case: Case, held: Held, rng: random.Random) -> None:
    number = _rewritten(case, held, rng)
    old = held.entries[number]
    if old.commits is not None:
        raise Impossible
    records = tuple((time, value + b"!") for time, value in old.records)
    _rewrite(case, held, "value, other size", number, replace(old, records=records))


def other_producer(case: Case, held: Held, rng: random.Random) -> None:
    """The same records, from another producer, or from none."""
    number = _rewritten(case, held, rng)
    old = held.entries[number]
    if old.is_plain or old.commits is not None:
        raise Impossible
    changed = rng.choice((replace(old, producer=-1, sequence=-1), replace(old, sequence=old.sequence + 1)))
    _rewrite(case, held, "other producer", number, changed)


def other_codec(case: Case, held: Held, rng: random.Random) -> None:
    """The same records, compressed otherwise: what a leader does that takes a batch for the first time, never later."""
    number = _rewritten(case, held, rng)
    old = held.entries[number]
    if old.commits is not None:
        raise Impossible
    changed = replace(old, codec=rng.choice([codec for codec in CODECS if codec != old.codec]))
    _rewrite(case, held, "other codec", number, changed)


def other_batches(case: Case, held: Held, rng: random.Random) -> None:
    """The same records, cut into other batches."""
    number = _rewritten(case, held, rng)
    one, two = held.entries[number : number + 2] if number + 1 < len(held.entries) else (None, None)
    if one is None or two is None or one.epoch != two.epoch or len(one.records) + len(two.records) < 3:
        raise Impossible
    if two.last >= min(held.mark or 0, held.end) or not (one.is_plain and two.is_plain):
        raise Impossible
    records = one.records + two.records
    cut = rng.choice([at for at in range(1, len(records)) if at != len(one.records)])
    changed = replace(one, records=records[:cut]), replace(two, records=records[cut:], first=one.first + cut)
    _rewrite(case, held, "other batches", number, *changed)


def divergent_suffix(case: Case, held: Held, rng: random.Random) -> None:
    """It followed another leader from some offset on, and took that for committed."""
    number = _rewritten(case, held, rng)
    old, end = held.entries[number], held.end
    until = max(one.end for one in case.held.values()) - 1
    case.reserve(held.replica, old.first, end + 1000)
    before = held.entries[number - 1].epoch if number else 0
    epoch = rng.choice((before, old.epoch, old.epoch + 1, held.entries[-1].epoch + 1))
    held.entries = held.entries[:number]
    offset = old.first
    while offset < end:
        held.entries.append(entry(rng, offset, epoch, rng.randint(1, 4), NOW))
        offset = held.entries[-1].last + 1
    held.write()
    case.causes.append(Cause("divergent suffix", "VALUE_MISMATCH", held.replica, old.first, max(until, held.end - 1)))


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
    if not any(o.wrote(old.first) and (o.mark or 0) > old.first for o in case.others(held.replica)):
        raise Impossible
    case.reserve(held.replica, old.first, old.last)
    held.entries[number] = replace(old, epoch=epoch)
    held.write()
    case.causes.append(Cause("batch of another epoch", "EPOCH_MISMATCH", held.replica, old.first, old.last))


def changed_epoch(case: Case, held: Held, rng: random.Random) -> None:
    """The epoch in a batch's header, which no CRC covers (RB-2): a damage, done to the file."""
    place = pick(case, held, rng, held.mark)
    first, last = place.header.base_offset, place.header.last_offset
    outlook = Outlook(case, case.causes)
    if not outlook.knows(held, first) or not any(outlook.knows(other, first) for other in case.others(held.replica)):
        raise Impossible
    epoch = rng.choice((place.header.leader_epoch + 1, place.header.leader_epoch + 40, 0))
    if epoch == place.header.leader_epoch or any(cause.name == "changed epoch" for cause in case.of(held.replica)):
        raise Impossible
    case.reserve(held.replica, first, last)
    overwrite(place.path, place.position + 12, epoch.to_bytes(4, "big"))
    visited, now = is_visited(place), ((epoch, first),)
    case.causes.append(Cause("changed epoch", "EPOCH_MISMATCH", held.replica, first, last, epochs=now, visited=visited))


REWRITES: list[Step] = [
    value_of_the_same_size,
    value_of_another_size,
    other_producer,
    other_codec,
    other_batches,
    divergent_suffix,
    batch_of_another_epoch,
]
