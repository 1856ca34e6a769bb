"""Batches that are gone, or come twice."""

import random
import shutil
from pathlib import Path

from tests.audit.cases import COMMITTED_LOSS, GAP, MISNUMBERED, Case, Cause, Held, Impossible, Step, pick
from tests.audit.damage import BEYOND
from tests.audit.expected import Outlook
from tests.audit.replica_files import Place, logs, remove_batch, remove_segment, truncate_before


def _lost(case: Case, held: Held, name: str, first: int, last: int, gone: list[Place], *, shifts: bool = False) -> None:
    held.removed(gone, shifts=shifts)
    case.causes.append(Cause(name, COMMITTED_LOSS, held.replica, first, last))


def lost_batch(case: Case, held: Held, rng: random.Random) -> None:
    place = pick(case, held, rng)
    first, last = place.header.base_offset, place.header.last_offset
    if place == held.batches[-1]:
        raise Impossible  # that would be a tail
    case.reserve(held.replica, first, last)
    remove_batch(place)
    _lost(case, held, "lost batch", first, last, [place], shifts=True)


def lost_tail(case: Case, held: Held, rng: random.Random) -> None:
    place = pick(case, held, rng, held.mark)
    first = place.header.base_offset
    if held.mark is None or any(path.is_dir() for path in held.directory.iterdir()):
        raise Impossible
    before = [other.header.base_offset for other in held.batches if other.header.base_offset < first][-1:]
    if any(hit.how == MISNUMBERED and hit.first in before for cause in case.of(held.replica) for hit in cause.hits):
        raise Impossible  # what follows is what tells where that one should be
    case.reserve(held.replica, first, held.end + 1000)
    truncate_before(place)
    gone = [other for other in held.batches if other.header.base_offset >= first]
    _lost(case, held, "lost tail", first, held.end + 1000, gone)


def lost_segment(case: Case, held: Held, rng: random.Random) -> None:
    """From the middle. That a first one is gone cannot be told from retention."""
    paths = logs(held.directory)
    candidates = [path for path in paths[1:-1] if int(path.stem) >= held.log_start]
    if not candidates:
        raise Impossible
    path = rng.choice(candidates)
    _segment_gone(case, held, "lost segment", path)
    remove_segment(path)


def emptied_segment(case: Case, held: Held, rng: random.Random) -> None:
    path = rng.choice(logs(held.directory)[:-1] or [held.directory])
    if path == held.directory or int(path.stem) < held.log_start:
        raise Impossible
    _segment_gone(case, held, "emptied segment", path)
    path.write_bytes(b"")


def _segment_gone(case: Case, held: Held, name: str, path: Path) -> None:
    paths = logs(held.directory)
    first, last = int(path.stem), int(paths[paths.index(path) + 1].stem) - 1
    gone = [place for place in held.batches if place.path == path]
    if not gone or not all(file.is_file() for file in held.directory.glob(f"{path.stem}.*")):
        raise Impossible
    case.reserve(held.replica, first, last)
    _lost(case, held, name, first, last, gone)


def lost_first_segment(case: Case, held: Held, rng: random.Random) -> None:
    paths = logs(held.directory)
    if len(paths) < 2 or held.delete_below:
        raise Impossible
    last = int(paths[1].stem) - 1
    case.reserve(held.replica, 0, last, alone=True)
    remove_segment(paths[0])
    held.removed([place for place in held.batches if place.path == paths[0]])
    held.start = held.kept_from = last + 1
    case.causes.append(Cause("lost first segment", "", held.replica, None, None))


def lost_replica(case: Case, held: Held, rng: random.Random) -> None:
    """Only its high watermark remains in the checkpoint."""
    if held.mark is None or held.mark <= held.log_start:
        raise Impossible
    if any(held.directory.parent.glob(f"{held.directory.name}.*-delete")):
        raise Impossible  # it is set aside
    case.reserve(held.replica, 0, BEYOND, alone=True)
    shutil.rmtree(held.directory)
    first = held.log_start if held.start_named else 0
    held.start, held.delete_below = first, 0
    _lost(case, held, "lost replica", first, held.end + 1000, list(held.batches))


def gap(case: Case, held: Held, rng: random.Random) -> None:
    """The same batch is gone everywhere."""
    place = pick(case, held, rng)
    first, last = place.header.base_offset, place.header.last_offset
    outlook = Outlook(case, case.causes)
    holders = [one for one in case.held.values() if outlook.has(one, first)]
    copies = [next((other for other in one.batches if other.header.base_offset == first), None) for one in holders]
    places = [one for one in copies if one is not None and one.header.last_offset == last]
    if len(places) < len(holders) or any(one.log_start > first for one in holders):
        raise Impossible
    if any(other in (one.batches[-1], None) for one, other in zip(holders, places, strict=True)):
        raise Impossible
    if any(case.of(one.replica) for one in holders if one is not held):
        raise Impossible
    case.reserve(held.replica, first, last)
    for one, other in zip(holders, places, strict=True):
        remove_batch(other)
        one.removed([other], shifts=True)
        case.causes.append(Cause("gap", GAP, one.replica, first, last))


def repeated_batch(case: Case, held: Held, rng: random.Random) -> None:
    """A batch stands there twice: behind itself, or at the end of the segment before its own."""
    place = pick(case, held, rng)
    first, last = place.header.base_offset, place.header.last_offset
    case.reserve(held.replica, first, last, alone=True)
    before = [path for path in logs(held.directory) if path < place.path]
    data = place.path.read_bytes()
    end = place.position + place.header.size
    batch = data[place.position : end]
    if place.position == 0 and before:
        before[-1].write_bytes(before[-1].read_bytes() + batch)
    else:
        place.path.write_bytes(data[:end] + batch + data[end:])
        held.shifted(place, place.header.size)
    case.causes.append(Cause("repeated batch", GAP, held.replica, first, last))


LOSSES: list[Step] = [
    lost_batch,
    lost_tail,
    lost_segment,
    emptied_segment,
    lost_first_segment,
    lost_replica,
    gap,
    repeated_batch,
]
