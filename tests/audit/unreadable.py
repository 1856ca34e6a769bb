"""Files that cannot be read, and what is not known without them."""

import random
from pathlib import Path

from replog.log.formats.checkpoint import LEADER_EPOCH_CHECKPOINT
from tests.audit.cases import LEADS_AWAY, UNREADABLE, Case, Cause, Held, Impossible, Step
from tests.audit.replica_files import logs


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


UNREADABLE_FILES: list[Step] = [unreadable_log, unreadable_index, unreadable_epochs, no_high_watermark]
