"""What is wrong beside the log itself: indexes and epoch checkpoints that lie."""

import itertools
import random
from pathlib import Path

from replog.log.formats.checkpoint import LEADER_EPOCH_CHECKPOINT, read_entries, write_entries
from tests.audit.cases import LEADS_AWAY, Case, Cause, Held, Impossible, Range, Step
from tests.audit.replica_files import is_visited
from tests.damage.vocabulary import index_entries, set_index_entry

SURPLUS = -9  # instead of a slot: what comes behind all of them

Row = tuple[int, ...]  # an entry

# -- indexes that lie


def _index(case: Case, held: Held, suffix: str, rng: random.Random) -> tuple[Path, list[tuple[int, ...]], int]:
    """An index file, its entries and a slot: the first, the last or one between. Only one that is right as yet, and
    none of those by which an audit finds its way past a batch that leads away."""
    lost = {hit.first for cause in case.of(held.replica) for hit in cause.hits if hit.how == LEADS_AWAY}
    needed = {place.path for place in held.batches if place.header.base_offset in lost}
    full = {}
    for path in sorted(held.directory.glob(f"*{suffix}")):
        log = path.with_suffix(".log")
        if path.is_file() and log.is_file() and not (suffix == ".index" and log in needed):
            entries = index_entries(path)
            full[path] = entries[: _used(entries)]
    full = {path: entries for path, entries in full.items() if entries}
    if not full:
        raise Impossible
    path = rng.choice(list(full))
    slot = rng.choice((0, len(full[path]) - 1, rng.randrange(len(full[path]))))
    if any((path, near) in held.lied for near in (slot - 1, slot, slot + 1)):
        raise Impossible
    return path, full[path], slot


def _used(entries: list[tuple[int, ...]]) -> int:
    used = len(entries)
    while used and entries[used - 1] == (0, 0):
        used -= 1
    return used


def _lie(
    case: Case,
    held: Held,
    name: str,
    offsets: Range,
    path: Path,
    slot: int,
    entry: Row = (),
    alone: Range | None = None,
) -> None:
    """Change an entry, and note what its lie is about. Nothing else may be wrong in the offsets where it is `alone`."""
    case.reserve(held.replica, *(alone or offsets), alone=alone is not None)
    held.lied.add((path, slot))
    behind: tuple[Range, ...] = ()
    if entry:
        behind = _unfit(path, slot, entry)
        set_index_entry(path, slot, entry)
    position = entry[1] if path.suffix == ".index" and entry else None
    segment = int(path.stem)
    case.causes.append(
        Cause(name, "INDEX_LIE", held.replica, *offsets, segment, position, index=path.suffix, behind=behind)
    )


def _unfit(path: Path, slot: int, entry: Row) -> tuple[Range, ...]:
    """What the entries behind this one are about, as far as they fit the one that was there, but not this one."""
    entries = index_entries(path)
    entries = entries[: _used(entries)]
    base, field = int(path.stem), 1 if path.suffix == ".timeindex" else 0
    if path.suffix == ".digest" and slot + 1 < len(entries) and entry[0] == entries[slot][0]:
        return ((base + entry[0] + 1, base + entries[slot + 1][0]),)  # what they say is added up

    def follows(one: Row, other: Row) -> bool:
        if path.suffix == ".timeindex":
            return one[0] < other[0] and one[1] <= other[1]
        return one[0] < other[0] and (one[1] < other[1] or path.suffix == ".digest")

    if slot and not follows(entries[slot - 1], entry):
        return ()
    disordered = itertools.takewhile(lambda one: not follows(entry, one), entries[slot + 1 :])
    return tuple((base + one[field], base + one[field]) for one in disordered)


def lying_position(case: Case, held: Held, rng: random.Random) -> None:
    path, entries, slot = _index(case, held, ".index", rng)
    relative, position = entries[slot]
    offset = int(path.stem) + relative
    starts = {place.position for place in held.batches if place.path == path.with_suffix(".log")}
    moved = position + rng.choice((-1, 1)) * rng.randint(1, 300)
    if moved in starts or moved < 0:
        raise Impossible
    _lie(case, held, "offset index: position", (offset, offset), path, slot, (relative, moved))


def lying_offset(case: Case, held: Held, rng: random.Random) -> None:
    path, entries, slot = _index(case, held, ".index", rng)
    relative, position = entries[slot]
    base = int(path.stem)
    said = relative + rng.randint(-3, 3)
    ends = {place.header.last_offset for place in held.batches}
    if said < 0 or base + said in ends:
        raise Impossible  # it may be the end of a longer append (SG-2)
    _lie(case, held, "offset index: offset", (base + said, base + said), path, slot, (said, position))


def entry_of_the_neighbour(case: Case, held: Held, rng: random.Random) -> None:
    """Position, or position and offset, of the batch beside: of Kafka's entries that may be so."""
    path, entries, slot = _index(case, held, ".index", rng)
    base, digests = int(path.stem), path.with_suffix(".digest")
    of = [place for place in held.batches if place.path == path.with_suffix(".log")]
    at = next((n for n, place in enumerate(of) if place.position == entries[slot][1]), -1) + rng.choice((-1, 1))
    if not digests.is_file() or any(lied == digests for lied, _ in held.lied) or not 0 <= at < len(of):
        raise Impossible
    position, last = of[at].position, of[at].header.last_offset
    if position in {entry[1] for entry in entries} or last > base + index_entries(digests)[-1][0]:
        raise Impossible
    said = rng.choice((last - base, entries[slot][0]))
    first = base if slot == 0 else base + entries[slot - 1][0] + 1
    end = of[-1].header.last_offset if slot + 1 == len(entries) else base + entries[slot + 1][0]
    about = (base + said, base + said)
    _lie(case, held, "offset index: neighbour", about, path, slot, (said, position), (first, end))


def lying_time(case: Case, held: Held, rng: random.Random) -> None:
    path, entries, slot = _index(case, held, ".timeindex", rng)
    timestamp, relative = entries[slot]
    offset = int(path.stem) + relative
    _lie(
        case,
        held,
        "time index: timestamp",
        (offset, offset),
        path,
        slot,
        (timestamp + rng.choice((-1, 1)) * rng.randint(1, 2000), relative),
    )


def lying_time_offset(case: Case, held: Held, rng: random.Random) -> None:
    path, entries, slot = _index(case, held, ".timeindex", rng)
    timestamp, relative = entries[slot]
    base, said = int(path.stem), relative + rng.randint(-3, 3)
    if said < 0 or said == relative or _is_so(held, path, timestamp, base + said):
        raise Impossible
    _lie(case, held, "time index: offset", (base + said, base + said), path, slot, (timestamp, said))


def _is_so(held: Held, path: Path, timestamp: int, offset: int) -> bool:
    """Whether an entry of a time index may say so: any record of the batch may be named where there are no digests."""
    of = [place.header for place in held.batches if place.path.with_suffix(".timeindex") == path]
    batch = next((one for one in of if one.base_offset <= offset <= one.last_offset), None)
    digests = path.with_suffix(".digest")
    exact = digests.is_file() and offset <= int(path.stem) + max((end for end, _ in index_entries(digests)), default=-1)
    return batch is not None and batch.max_timestamp == timestamp and (not exact or offset == batch.last_offset)


def lying_digest(case: Case, held: Held, rng: random.Random) -> None:
    path, entries, slot = _index(case, held, ".digest", rng)
    relative, digest = entries[slot]
    base = int(path.stem)
    first = base if slot == 0 else base + entries[slot - 1][0] + 1
    _lie(
        case,
        held,
        "digest index: digest",
        (first, base + relative),
        path,
        slot,
        (relative, digest ^ (1 << rng.randrange(64))),
    )


def lying_digest_offset(case: Case, held: Held, rng: random.Random) -> None:
    path, entries, slot = _index(case, held, ".digest", rng)
    relative, digest = entries[slot]
    base, said = int(path.stem), relative + rng.randint(-3, 3)
    ends = {place.header.last_offset for place in held.batches}
    if said < 0 or base + said in ends:
        raise Impossible
    _lie(case, held, "digest index: offset", (base + said, base + said), path, slot, (said, digest))


def index_that_ends_within_an_entry(case: Case, held: Held, rng: random.Random) -> None:
    path, _, _ = _index(case, held, rng.choice((".index", ".timeindex", ".digest")), rng)
    base = int(path.stem)
    if (path, SURPLUS) in held.lied:
        raise Impossible
    _lie(case, held, "index: not whole entries", (base, base), path, SURPLUS)
    path.write_bytes(path.read_bytes() + b"\x01" * rng.randint(1, 7))


# -- epoch checkpoints that lie


def _checkpoint(case: Case, held: Held) -> tuple[Path, list[tuple[int, int]]]:
    path = held.directory / LEADER_EPOCH_CHECKPOINT
    if not path.is_file() or any(cause.kind == "EPOCH_CACHE_LIE" for cause in case.of(held.replica)):
        raise Impossible
    return path, [(int(epoch), int(start)) for epoch, start in read_entries(path, 2)]


def _wrong_epochs(case: Case, held: Held, name: str, path: Path, entries: list[tuple[int, int]]) -> None:
    """Write these, which are wrong about some batch."""
    wrong = [
        one
        for one in held.entries
        if one.last >= held.log_start
        and {_epoch(entries, max(one.first, held.log_start)), _epoch(entries, one.last)} != {one.epoch}
    ]
    if not wrong:
        raise Impossible
    first, last = wrong[0].first, wrong[-1].last
    case.reserve(held.replica, first, last)
    write_entries(path, entries)
    offsets = {one.first for one in wrong}
    visited = any(is_visited(place) and place.header.base_offset in offsets for place in held.batches)
    case.causes.append(
        Cause(name, "EPOCH_CACHE_LIE", held.replica, first, last, epochs=tuple(entries), visited=visited)
    )


def _epoch(entries: list[tuple[int, int]], offset: int) -> int | None:
    return next((epoch for epoch, start in reversed(entries) if start <= offset), None)


def epoch_that_begins_elsewhere(case: Case, held: Held, rng: random.Random) -> None:
    path, entries = _checkpoint(case, held)
    slot = rng.randrange(len(entries))
    epoch, start = entries[slot]
    entries[slot] = (epoch, max(0, start + rng.randint(-9, 9)))
    if any(a[1] >= b[1] for a, b in itertools.pairwise(entries)) or entries[-1][1] > held.end:
        raise Impossible
    _wrong_epochs(case, held, "epoch begins elsewhere", path, entries)


def other_epoch(case: Case, held: Held, rng: random.Random) -> None:
    path, entries = _checkpoint(case, held)
    slot = rng.randrange(len(entries))
    entries[slot] = (max(0, entries[slot][0] + rng.choice((-1, 1))), entries[slot][1])
    if any(a[0] >= b[0] for a, b in itertools.pairwise(entries)):
        raise Impossible
    _wrong_epochs(case, held, "other epoch", path, entries)


def missing_epoch(case: Case, held: Held, rng: random.Random) -> None:
    path, entries = _checkpoint(case, held)
    if len(entries) < 2:
        raise Impossible
    del entries[rng.randrange(len(entries))]
    _wrong_epochs(case, held, "missing epoch", path, entries)


def unusable_epochs(case: Case, held: Held, rng: random.Random) -> None:
    """Missing, no checkpoint at all, or out of order."""
    path, entries = _checkpoint(case, held)
    _unusable(case, held, "unusable epochs")
    how = rng.choice(("missing", "garbage", "order"))
    if how == "missing":
        path.unlink()
    elif how == "garbage":
        path.write_bytes(rng.choice((b"garbage\n", b"0\n2\n1 0\n", b"0\n1\n1 x\n", b"\xff\xfe")))
    else:
        write_entries(path, [*entries, (entries[-1][0], entries[-1][1] + 1)])


def epochs_of_a_log_that_went_on(case: Case, held: Held, rng: random.Random) -> None:
    path, entries = _checkpoint(case, held)
    _unusable(case, held, "epochs beyond the log end")
    write_entries(path, [*entries, (entries[-1][0] + 1, held.end + rng.randint(1, 50))])


def _unusable(case: Case, held: Held, name: str) -> None:
    case.reserve(held.replica, held.log_start, held.end - 1)
    case.causes.append(Cause(name, "EPOCH_CACHE_LIE", held.replica, held.log_start, held.end - 1))


LIES: list[Step] = [
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
    epochs_of_a_log_that_went_on,
]
