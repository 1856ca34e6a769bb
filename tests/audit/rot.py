"""Bytes of the log that changed: bits that flipped, pages that never reached the disk."""

import contextlib
import random

from replog.log.errors import CorruptRecord
from replog.log.formats.batch import HEADER_SIZE, BatchHeader, parse_header
from tests.audit.cases import (
    COMMITTED_LOSS,
    GAP,
    IN_PLACE,
    LEADS_AWAY,
    MISNUMBERED,
    Case,
    Cause,
    Held,
    Hit,
    Impossible,
    Step,
    pick,
)
from tests.audit.damage import BEYOND
from tests.audit.replica_files import Place, is_visited, logs
from tests.damage.vocabulary import overwrite


def _rotten(name: str, at: range) -> Step:
    """Flip a bit of a batch, in the bytes `at`, or of its records."""

    def step(case: Case, held: Held, rng: random.Random) -> None:
        place = pick(case, held, rng)
        batch = bytearray(place.path.read_bytes()[place.position : place.position + place.header.size])
        batch[rng.choice(at or range(HEADER_SIZE, len(batch)))] ^= 1 << rng.randrange(8)
        may_be: tuple[str, ...] = ()
        if place == held.batches[-1] and name == "rotten base offset":
            may_be = (COMMITTED_LOSS, GAP)  # no batch follows that tells where this one should be
            case.reserve(held.replica, 0, BEYOND, alone=True)
        _hit(case, held, name, place, {place: bytes(batch)}, may_be, visited=is_visited(place))

    step.__name__ = name
    return step


def _hit(
    case: Case,
    held: Held,
    name: str,
    place: Place,
    changed: dict[Place, bytes],
    may_be: tuple[str, ...],
    *,
    visited: bool,
) -> None:
    hits = [_seen(one, _parsed(data)) for one, data in changed.items()]
    in_file = [other for other in held.batches if other.path == place.path]
    leads_away = any(hit.how == LEADS_AWAY for hit in hits)
    if leads_away and in_file[-1].header.last_offset >= (held.mark or 0) and place.path == logs(held.directory)[-1]:
        raise Impossible  # a batch behind the high watermark that cannot be read at all looks like a torn write
    first, last = hits[0].first, in_file[-1].header.last_offset if leads_away else hits[-1].last
    case.reserve(held.replica, first, last)
    for one, data in changed.items():
        overwrite(one.path, one.position, data)
    more = {"position": place.position, "hits": tuple(hits), "visited": visited, "may_be": may_be}
    case.causes.append(Cause(name, "BIT_ROT", held.replica, first, last, **more))


def _seen(place: Place, says: BatchHeader | None) -> Hit:
    was = place.header
    if says is None or says.size != was.size:
        beyond = says is not None and place.position + says.size > place.path.stat().st_size
        return Hit(was.base_offset, was.last_offset, LEADS_AWAY, ends=False, beyond=beyond)
    how = IN_PLACE if says.base_offset == was.base_offset else MISNUMBERED
    ends = (says.last_offset, says.records_count) == (was.last_offset, was.records_count)
    return Hit(was.base_offset, was.last_offset, how, ends)


def _parsed(data: bytes | bytearray) -> BatchHeader | None:
    with contextlib.suppress(CorruptRecord):
        return parse_header(bytes(data))
    return None


def zeros(case: Case, held: Held, rng: random.Random) -> None:
    """A piece of the file that never reached the disk; it may end in another batch."""
    place = pick(case, held, rng)
    begin = place.position + rng.randrange(HEADER_SIZE, place.header.size)
    content = place.path.read_bytes()
    end = min(len(content), begin + rng.randint(20, 300))
    zeroed = content[:begin] + bytes(end - begin) + content[end:]
    changed = {
        other: zeroed[slice(*span)]
        for other in held.batches
        if other.path == place.path
        for span in [(other.position, other.position + other.header.size)]
        if zeroed[slice(*span)] != content[slice(*span)]
    }
    if place not in changed:
        raise Impossible
    beyond = end >= place.position + place.header.size + 12  # as far as the length of the next batch
    _hit(case, held, "zeros", place, changed, (), visited=beyond)


ROT: list[Step] = [
    _rotten("rotten record", range(0)),
    _rotten("rotten header", range(21, HEADER_SIZE)),  # what the CRC covers, from the attributes on
    _rotten("rotten CRC", range(17, 21)),
    _rotten("rotten length", range(8, 12)),
    _rotten("rotten magic", range(16, 17)),
    _rotten("rotten base offset", range(8)),
    zeros,
]
