"""What replicas may differ in without anything being wrong."""

import random
from dataclasses import replace

from replog.log.formats.checkpoint import LEADER_EPOCH_CHECKPOINT, read_entries, write_entries
from tests.audit.cases import Case, Held, Impossible, Step
from tests.audit.history import CODECS, NOW, entry
from tests.audit.replica_files import index_per_append, logs, name_records


def lag(case: Case, held: Held, rng: random.Random) -> None:
    """It has not fetched everything, and may know still less to be committed."""
    _long_enough(held)
    held.entries = held.entries[: rng.randrange(len(held.entries) // 2 + 1, len(held.entries))]
    known = rng.choice(held.entries).first if rng.random() < 0.5 else held.end
    held.mark = max(held.log_start, min(known, held.mark or 0))


def high_watermark_behind(case: Case, held: Held, rng: random.Random) -> None:
    _long_enough(held)
    held.mark = max(held.log_start, min(held.mark or 0, held.entries[-rng.randint(1, 5)].first))


def uncommitted_tail(case: Case, held: Held, rng: random.Random) -> None:
    """Behind its high watermark it has batches of a leader that was replaced, or of one that nobody else heard yet."""
    _long_enough(held)
    kept = len(held.entries) - rng.randint(1, 6)
    offset, epoch = held.entries[kept].first, held.entries[kept].epoch + rng.randint(0, 2)
    if offset < held.log_start:
        raise Impossible
    held.entries = held.entries[:kept]
    held.mark = min(held.mark or 0, offset)
    for _ in range(rng.randint(1, 8)):
        one = entry(rng, held.end, epoch, rng.randint(1, 4), NOW)
        held.entries.append(replace(one, codec=rng.choice(CODECS)))


def late_start(case: Case, held: Held, rng: random.Random) -> None:
    """It was added later, and began with its leader's log start of then."""
    first = rng.randrange(1, len(held.entries) // 2)
    if held.delete_below or held.entries[first].first > (held.mark or 0):
        raise Impossible
    held.entries = held.entries[first:]
    held.start = held.entries[0].first


def retention(case: Case, held: Held, rng: random.Random) -> None:
    """It has deleted more than others: a segment or more, or up to a record in the middle of one (DeleteRecords)."""
    chosen = rng.choice(held.entries[: len(held.entries) // 2])
    below = rng.randint(chosen.first, chosen.last)
    if not held.start < below <= (held.mark or 0):
        raise Impossible
    held.delete_below = below


def other_segments(case: Case, held: Held, rng: random.Random) -> None:
    held.settings["segment_bytes"] = rng.randint(400, 5000)


def other_index_interval(case: Case, held: Held, rng: random.Random) -> None:
    held.settings["index_interval_bytes"] = rng.randint(0, 1000)


def no_time_index(case: Case, held: Held, rng: random.Random) -> None:
    _remove(held, ".timeindex", rng)


def no_offset_index(case: Case, held: Held, rng: random.Random) -> None:
    _remove(held, ".index", rng)


def no_digest_index(case: Case, held: Held, rng: random.Random) -> None:
    _remove(held, ".digest", rng)


def preallocated_indexes(case: Case, held: Held, rng: random.Random) -> None:
    """A crash leaves the active segment's indexes at their full size (IX-2, S-W-I8)."""
    for suffix, size in ((".index", 8), (".timeindex", 12)):
        path = logs(held.directory)[-1].with_suffix(suffix)
        if path.exists():
            path.write_bytes(path.read_bytes() + bytes(size * rng.randint(1, 200)))


def elected_without_a_batch(case: Case, held: Held, rng: random.Random) -> None:
    """A new leader notes its epoch at its log end before it has written anything (EP-3)."""
    path = held.directory / LEADER_EPOCH_CHECKPOINT
    entries = [(int(epoch), int(start)) for epoch, start in read_entries(path, 2)]
    if entries[-1][1] >= held.end:
        raise Impossible
    write_entries(path, [*entries, (entries[-1][0] + rng.randint(1, 3), held.end)])


def torn_write(case: Case, held: Held, rng: random.Random) -> None:
    """A crash left a part of a batch behind the last one, or zeros, or what was there before."""
    if held.mark is None or held.mark > held.end:
        raise Impossible
    path = logs(held.directory)[-1]
    data = path.read_bytes()
    if not data:
        raise Impossible
    torn = rng.choice((data[: rng.randint(1, 60)], bytes(rng.randint(1, 200)), b"\x5a" * rng.randint(1, 200)))
    path.write_bytes(data + torn)


def files_of_others(case: Case, held: Held, rng: random.Random) -> None:
    """Files and directories on their way in or out, or gone."""
    log = rng.choice(logs(held.directory))
    for suffix in (
        ".log.deleted",
        ".index.deleted",
        ".log.cleaned",
        ".log.swap",
        ".snapshot.deleted",
        ".txnindex.swap",
    ):
        log.with_suffix(suffix).write_bytes(b"\x01\x02\x03")
    log.with_suffix(".snapshot").unlink(missing_ok=True)  # brokers keep few
    (held.directory / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    (held.directory.parent / f"{case.topic}-0.{'a' * 32}-delete").mkdir(exist_ok=True)


def empty_active_segment(case: Case, held: Held, rng: random.Random) -> None:
    """It has just rolled, by time."""
    path = held.directory / f"{held.end:020}.log"
    if path.exists():
        raise Impossible
    for suffix in (".log", ".index", ".timeindex"):
        path.with_suffix(suffix).write_bytes(b"")


def as_kafka(case: Case, held: Held, rng: random.Random) -> None:
    """No digest indexes; index entries are per append, and depend on what each fetch brought (SG-2); those of the time
    index may have any offset of a batch."""
    for path in held.directory.glob("*.digest"):
        path.unlink()
    if rng.random() < 0.7:
        for path in logs(held.directory):
            index_per_append(path, held.settings["index_interval_bytes"], rng)
    of_replica = random.Random(f"{case.seed}-{held.replica}")
    if of_replica.random() < 0.5:
        for path in logs(held.directory):
            name_records(path, of_replica)


def _remove(held: Held, suffix: str, rng: random.Random) -> None:
    paths = sorted(held.directory.glob(f"*{suffix}"))
    if not paths:
        raise Impossible
    for path in paths if rng.random() < 0.5 else [rng.choice(paths)]:
        path.unlink()


def _long_enough(held: Held) -> None:
    if len(held.entries) < 10:
        raise Impossible


PLANS: list[Step] = [
    lag,
    high_watermark_behind,
    uncommitted_tail,
    late_start,
    retention,
    other_segments,
    other_index_interval,
]
"""What is decided before the log is written."""

FILES: list[Step] = [
    no_time_index,
    no_offset_index,
    no_digest_index,
    preallocated_indexes,
    elected_without_a_batch,
    files_of_others,
    empty_active_segment,
]
"""What is done to its files."""
