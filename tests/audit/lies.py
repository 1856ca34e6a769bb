"""Epoch checkpoints that lie. Of indexes that do, `tests/damage/rows.py` says what each level makes of them."""

import itertools
import random
from pathlib import Path

from replog.log.formats.checkpoint import LEADER_EPOCH_CHECKPOINT, read_entries, write_entries
from tests.audit.cases import Case, Cause, Held, Impossible, Step
from tests.audit.replica_files import is_visited


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
    epoch_that_begins_elsewhere,
    other_epoch,
    missing_epoch,
    unusable_epochs,
    epochs_of_a_log_that_went_on,
]
