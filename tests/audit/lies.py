"""What is wrong beside the log itself, class by class: indexes and checkpoints that lie, files that cannot be read."""

import itertools
import random
from pathlib import Path

from replog.log.checkpoint import LEADER_EPOCH_CHECKPOINT, read_entries, write_entries
from tests.audit.cases import UNREADABLE, Case, Cause, Held, Impossible
from tests.audit.replica_files import (
    index_entries,
    is_visited,
    logs,
    places,
    set_index_entry,
)

# -- indexes that lie


def _index(held: Held, suffix: str, rng: random.Random) -> tuple[Path, list[tuple[int, ...]], int]:
    """An index file, its entries and a slot: the first, the last or one between."""
    entries = {path: index_entries(path) for path in sorted(held.directory.glob(f"*{suffix}"))}
    full = {path: found[: _used(found)] for path, found in entries.items()}
    full = {path: found for path, found in full.items() if found and path.with_suffix(".log").exists()}
    if not full:
        raise Impossible
    path = rng.choice(list(full))
    return path, full[path], rng.choice((0, len(full[path]) - 1, rng.randrange(len(full[path]))))


def _used(entries: list[tuple[int, ...]]) -> int:
    used = len(entries)
    while used and entries[used - 1] == (0, 0):
        used -= 1
    return used


def _lie(case: Case, held: Held, name: str, first: int, last: int) -> None:
    case.reserve(first, last)
    case.causes.append(Cause(name, "INDEX_LIE", held.replica, first, last))


def lying_position(case: Case, held: Held, rng: random.Random) -> None:
    path, entries, slot = _index(held, ".index", rng)
    relative, position = entries[slot]
    offset = int(path.stem) + relative
    starts = {place.position for place in places(held.directory) if place.path == path.with_suffix(".log")}
    moved = position + rng.choice((-1, 1)) * rng.randint(1, 300)
    if moved in starts or moved < 0:
        raise Impossible
    _lie(case, held, "offset index: position", offset, offset)
    set_index_entry(path, slot, (relative, moved))


def lying_offset(case: Case, held: Held, rng: random.Random) -> None:
    path, entries, slot = _index(held, ".index", rng)
    relative, position = entries[slot]
    base = int(path.stem)
    said = relative + rng.randint(-3, 3)
    ends = {place.header.last_offset for place in places(held.directory)}
    if said < 0 or base + said in ends:
        raise Impossible  # it may be the end of a longer append (SG-2)
    _lie(case, held, "offset index: offset", base + said, base + said)
    set_index_entry(path, slot, (said, position))


def lying_time(case: Case, held: Held, rng: random.Random) -> None:
    path, entries, slot = _index(held, ".timeindex", rng)
    timestamp, relative = entries[slot]
    offset = int(path.stem) + relative
    _lie(case, held, "time index: timestamp", offset, offset)
    set_index_entry(path, slot, (timestamp + rng.choice((-1, 1)) * rng.randint(1, 2000), relative))


def lying_time_offset(case: Case, held: Held, rng: random.Random) -> None:
    path, entries, slot = _index(held, ".timeindex", rng)
    timestamp, relative = entries[slot]
    base, said = int(path.stem), relative + rng.randint(-3, 3)
    if said < 0 or said == relative:
        raise Impossible
    _lie(case, held, "time index: offset", base + said, base + said)
    set_index_entry(path, slot, (timestamp, said))


def lying_digest(case: Case, held: Held, rng: random.Random) -> None:
    path, entries, slot = _index(held, ".digest", rng)
    relative, digest = entries[slot]
    base = int(path.stem)
    first = base if slot == 0 else base + entries[slot - 1][0] + 1
    _lie(case, held, "digest index: digest", first, base + relative)
    set_index_entry(path, slot, (relative, digest ^ (1 << rng.randrange(64))))


def lying_digest_offset(case: Case, held: Held, rng: random.Random) -> None:
    path, entries, slot = _index(held, ".digest", rng)
    relative, digest = entries[slot]
    base, said = int(path.stem), relative + rng.randint(-3, 3)
    ends = {place.header.last_offset for place in places(held.directory)}
    if said < 0 or base + said in ends:
        raise Impossible
    _lie(case, held, "digest index: offset", base + said, base + said)
    set_index_entry(path, slot, (said, digest))


def index_that_ends_within_an_entry(case: Case, held: Held, rng: random.Random) -> None:
    path, _, _ = _index(held, rng.choice((".index", ".timeindex", ".digest")), rng)
    base = int(path.stem)
    _lie(case, held, "index: not whole entries", base, base)
    path.write_bytes(path.read_bytes() + b"\x01" * rng.randint(1, 7))


# -- epoch checkpoints that lie


def _checkpoint(held: Held) -> tuple[Path, list[tuple[int, int]]]:
    path = held.directory / LEADER_EPOCH_CHECKPOINT
    return path, [(int(epoch), int(start)) for epoch, start in read_entries(path, 2)]


def _wrong_epochs(case: Case, held: Held, rng: random.Random, name: str, entries: list[tuple[int, int]]) -> None:
    """Write these, and note the batches that they are wrong about."""
    runs: list[list[int]] = []
    for one in held.entries:
        if one.last < held.log_start:
            continue
        said = {_epoch(entries, max(one.first, held.log_start)), _epoch(entries, one.last)}
        if said != {one.epoch}:
            if runs and runs[-1][1] + 1 == one.first:
                runs[-1][1] = one.last
            else:
                runs.append([one.first, one.last])
    if not runs:
        raise Impossible
    case.reserve(runs[0][0], runs[-1][1])
    write_entries(held.directory / LEADER_EPOCH_CHECKPOINT, entries)
    visited = any(
        is_visited(place) and any(first <= place.header.base_offset <= last for first, last in runs)
        for place in places(held.directory)
    )
    case.causes += [Cause(name, "EPOCH_CACHE_LIE", held.replica, *run, visited=visited) for run in runs]


def _epoch(entries: list[tuple[int, int]], offset: int) -> int | None:
    return next((epoch for epoch, start in reversed(entries) if start <= offset), None)


def epoch_that_begins_elsewhere(case: Case, held: Held, rng: random.Random) -> None:
    _, entries = _checkpoint(held)
    slot = rng.randrange(len(entries))
    epoch, start = entries[slot]
    entries[slot] = (epoch, max(0, start + rng.randint(-9, 9)))
    if any(a[1] >= b[1] for a, b in itertools.pairwise(entries)) or entries[-1][1] > held.end:
        raise Impossible
    _wrong_epochs(case, held, rng, "epoch begins elsewhere", entries)


def other_epoch(case: Case, held: Held, rng: random.Random) -> None:
    _, entries = _checkpoint(held)
    slot = rng.randrange(len(entries))
    entries[slot] = (max(0, entries[slot][0] + rng.choice((-1, 1))), entries[slot][1])
    if any(a[0] >= b[0] for a, b in itertools.pairwise(entries)):
        raise Impossible
    _wrong_epochs(case, held, rng, "other epoch", entries)


def missing_epoch(case: Case, held: Held, rng: random.Random) -> None:
    _, entries = _checkpoint(held)
    if len(entries) < 2:
        raise Impossible
    del entries[rng.randrange(len(entries))]
    _wrong_epochs(case, held, rng, "missing epoch", entries)


def unusable_epochs(case: Case, held: Held, rng: random.Random) -> None:
    """Missing, no checkpoint at all, out of order, or of a log that went on."""
    path, entries = _checkpoint(held)
    case.reserve(held.log_start, held.end - 1)
    how = rng.choice(("missing", "garbage", "order", "beyond"))
    if how == "missing":
        path.unlink()
    elif how == "garbage":
        path.write_bytes(rng.choice((b"garbage\n", b"0\n2\n1 0\n", b"0\n1\n1 x\n", b"\xff\xfe")))
    elif how == "order":
        write_entries(path, [*entries, (entries[-1][0], entries[-1][1] + 1)])
    else:
        write_entries(path, [*entries, (entries[-1][0] + 1, held.end + rng.randint(1, 50))])
    case.causes.append(Cause("unusable epochs", "EPOCH_CACHE_LIE", held.replica, held.log_start, held.end - 1))


# -- what cannot be read


def _replace_by_directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()  # opens, but every read fails: what a bad disk does


def unreadable_log(case: Case, held: Held, rng: random.Random) -> None:
    paths = logs(held.directory)
    path = rng.choice(paths)
    base, last = int(path.stem), held.end
    if path != paths[-1]:
        last = int(paths[paths.index(path) + 1].stem) - 1
    case.reserve(base, last)
    _replace_by_directory(path)
    held.undescribed = path == paths[-1]
    held.unreadable.append((base, last))
    whole = held.undescribed
    cause = Cause("unreadable log", UNREADABLE, held.replica, None if whole else base, None)
    case.causes.append(cause)


def unreadable_index(case: Case, held: Held, rng: random.Random) -> None:
    """Without it nothing can be said of its segment."""
    paths = logs(held.directory)
    path = rng.choice(paths)
    suffix = rng.choice((".index", ".timeindex", ".digest"))
    last = held.end if path == paths[-1] else int(paths[paths.index(path) + 1].stem) - 1
    case.reserve(int(path.stem), last)
    _replace_by_directory(path.with_suffix(suffix))
    held.undescribed = path == paths[-1] and suffix == ".index"
    held.unreadable.append((int(path.stem), last))
    first = None if held.undescribed else int(path.stem)
    case.causes.append(Cause("unreadable index", UNREADABLE, held.replica, first, None))


def unreadable_epochs(case: Case, held: Held, rng: random.Random) -> None:
    case.reserve(held.log_start, held.end)
    _replace_by_directory(held.directory / LEADER_EPOCH_CHECKPOINT)
    held.undescribed = True
    case.causes.append(Cause("unreadable epochs", UNREADABLE, held.replica, None, None))


def no_high_watermark(case: Case, held: Held, rng: random.Random) -> None:
    """Its checkpoint does not name the partition: nothing of it is known to be committed."""
    if case.causes:
        raise Impossible
    held.mark = None
    case.causes.append(Cause("no high watermark", UNREADABLE, held.replica, None, None))
