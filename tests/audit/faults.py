"""All that a case may have wrong; here, epoch checkpoints that lie, and files that cannot be read.

Of indexes that lie, `tests/damage/rows.py` says what each level makes of them.
"""

import itertools
import random
from pathlib import Path

from replog.log.formats.checkpoint import LEADER_EPOCH_CHECKPOINT, read_entries, write_entries
from tests.audit.cases import LEADS_AWAY, UNREADABLE, Case, Cause, Held, Impossible, Step
from tests.audit.losses import LOSSES
from tests.audit.replica_files import is_visited, logs
from tests.audit.rewrites import REWRITES as REWRITES
from tests.audit.rewrites import changed_epoch
from tests.audit.rot import ROT


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


def _replace_by_directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()  # opens, but every read fails: what a bad disk does


def _unreadable_segment(case: Case, held: Held, name: str, log: Path, suffix: str) -> None:
    """Nothing can be said of the segment; nor of the replica, if that takes to know where its log ends."""
    paths = logs(held.directory)
    base, is_last = int(log.stem), log == paths[-1]
    places = [place for place in held.batches if place.path == log]
    last = places[-1].header.last_offset if places else base
    if not all(path.is_file() for path in held.directory.glob(f"{log.stem}.*")):
        raise Impossible
    whole = is_last and suffix in (".log", ".index")
    hits = [hit for cause in case.causes if cause.replica == held.replica for hit in cause.hits]
    if is_last and not whole and any(hit.first >= base and hit.how == LEADS_AWAY for hit in hits):
        raise Impossible  # the log would end there
    case.reserve(held.replica, base, last)
    _replace_by_directory(log.with_suffix(suffix))
    held.removed(places)
    if whole:
        case.causes.append(Cause(name, UNREADABLE, held.replica, None, None, whole=True))
    else:
        case.causes.append(Cause(name, UNREADABLE, held.replica, base, last))


def unreadable_log(case: Case, held: Held, rng: random.Random) -> None:
    _unreadable_segment(case, held, "unreadable log", rng.choice(logs(held.directory)), ".log")


def unreadable_index(case: Case, held: Held, rng: random.Random) -> None:
    suffix = rng.choice((".index", ".timeindex", ".digest"))
    _unreadable_segment(case, held, "unreadable index", rng.choice(logs(held.directory)), suffix)


def unreadable_epochs(case: Case, held: Held, rng: random.Random) -> None:
    if (held.directory / LEADER_EPOCH_CHECKPOINT).is_dir():
        raise Impossible
    case.reserve(held.replica, held.log_start, held.end)
    _replace_by_directory(held.directory / LEADER_EPOCH_CHECKPOINT)
    case.causes.append(Cause("unreadable epochs", UNREADABLE, held.replica, None, None, whole=True))


def no_high_watermark(case: Case, held: Held, rng: random.Random) -> None:
    """Its checkpoint does not name the partition: nothing of it is known to be committed."""
    if case.causes:
        raise Impossible
    held.mark = None
    case.causes.append(Cause("no high watermark", UNREADABLE, held.replica, None, None))


DAMAGES: list[Step] = [
    changed_epoch,
    *ROT,
    *LOSSES,
    epoch_that_begins_elsewhere,
    other_epoch,
    missing_epoch,
    unusable_epochs,
    epochs_of_a_log_that_went_on,
    unreadable_log,
    unreadable_index,
    unreadable_epochs,
    no_high_watermark,
]
"""What is done to the files of a replica, after everything that `REWRITES` does."""
