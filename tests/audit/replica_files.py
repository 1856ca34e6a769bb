"""One replica's files: written by the log itself, then changed byte by byte."""

import itertools
import random
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from replog.log.files.names import base_offset_of
from replog.log.formats.batch import HEADER_SIZE, BatchHeader, iterate_batches
from replog.log.indexes.index import OffsetIndex, TimeIndex, sealed_digest
from replog.log.retention import delete_old_segments
from tests.audit.history import Entry
from tests.damage.vocabulary import index_entries, set_index_entry
from tests.replog.log.batches import open_log


@dataclass(frozen=True)
class Place:
    """Where a batch lies."""

    path: Path
    position: int
    header: BatchHeader


def write_log(directory: Path, entries: Iterable[Entry], start: int, delete_below: int, **settings: int) -> None:
    """Write a replica that begins at `start` (as one that came late); then what lies below `delete_below` is deleted:
    whole segments go, one that it lies in stays."""
    shutil.rmtree(directory, ignore_errors=True)
    log = open_log(directory, log_start_offset=start, **settings)
    log.append_as_follower(b"".join(entry.data for entry in entries))
    if delete_below > start:
        log.update_high_watermark(delete_below)
        log.maybe_increment_log_start_offset(delete_below)
        delete_old_segments(log, 0)
    log.close()


def logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def places(directory: Path) -> list[Place]:
    """Every batch, in order."""
    return [
        Place(path, position, header)
        for path in logs(directory)
        for position, header in iterate_batches(path.read_bytes())
    ]


def locate(directory: Path, offset: int) -> Place:
    """The batch that begins with `offset`."""
    for place in places(directory):
        if place.header.base_offset == offset:
            return place
    raise AssertionError(f"{directory} has no batch at {offset}")


def cut_out(directory: Path, offset: int) -> None:
    """Take the batch that begins with `offset` out of its file."""
    remove_batch(locate(directory, offset))


def remove_batch(place: Place) -> None:
    data = place.path.read_bytes()
    place.path.write_bytes(data[: place.position] + data[place.position + place.header.size :])


def truncate(directory: Path, offset: int) -> None:
    """Cut the log before the batch that begins with `offset`, as a careless hand would."""
    truncate_before(locate(directory, offset))


def truncate_before(place: Place) -> None:
    for later in place.path.parent.glob("*.*"):
        if later.name.partition(".")[0] > place.path.stem:
            later.unlink()
    place.path.write_bytes(place.path.read_bytes()[: place.position])


def is_visited(place: Place) -> bool:
    """Whether level index reads this header: the first, those of offset entries, and those behind the last entry."""
    index = place.path.with_suffix(".index")
    positions = {0, *(position for _, position in index_entries(index))} if index.is_file() else {0}
    return place.position in positions or place.position > max(positions)


def lacks_digests(directory: Path) -> Path | None:
    """The first segment of which no digest index tells the digest, if all those before tell theirs."""
    paths = logs(directory)
    for path, after in itertools.zip_longest(paths, paths[1:]):
        digests = path.with_suffix(".digest")
        empty = path.is_file() and path.stat().st_size < HEADER_SIZE
        if not digests.exists():
            return None if empty or not path.is_file() else path
        if not digests.is_file():
            return None
        if after is not None and sealed_digest(digests, int(path.stem), int(after.stem)) is None:
            return path
    return None


def remove_segment(path: Path) -> None:
    """The `.log` and all that lies beside it."""
    for file in path.parent.glob(f"{path.stem}.*"):
        file.unlink()


def index_per_append(path: Path, interval: int, rng: random.Random) -> None:
    """Rebuild the indexes of a segment as Apache Kafka's followers do: appends of several batches, an entry for each
    append that finds the counter above the interval, with its last offset and its first position (SG-1, SG-2)."""
    base = base_offset_of(path.name)
    assert base is not None
    batches = list(iterate_batches(path.read_bytes()))
    offsets, times = b"", b""
    since, greatest, greatest_at, written = 0, -1, base, -1
    while batches:
        appended, batches = batches[: (count := rng.randint(1, 4))], batches[count:]
        for _, header in appended:
            if header.max_timestamp > greatest:
                greatest, greatest_at = header.max_timestamp, header.last_offset
        if since > interval:
            offsets += OffsetIndex.layout.pack(appended[-1][1].last_offset - base, appended[0][0])
            if greatest > written:
                times += TimeIndex.layout.pack(greatest, greatest_at - base)
                written = greatest
            since = 0
        since += sum(header.size for _, header in appended)
    if greatest > written:  # SG-11, SG-12
        times += TimeIndex.layout.pack(greatest, greatest_at - base)
    path.with_suffix(".index").write_bytes(offsets)
    path.with_suffix(".timeindex").write_bytes(times)


def name_records(log: Path, rng: random.Random) -> None:
    """Give each entry of a time index the offset of a record of its batch, as leaders of Kafka 3.3 do, not the last."""
    path, base = log.with_suffix(".timeindex"), int(log.stem)
    firsts = {header.last_offset - base: header.base_offset - base for _, header in iterate_batches(log.read_bytes())}
    for slot, (timestamp, offset) in enumerate(index_entries(path)):
        set_index_entry(path, slot, (timestamp, rng.randint(firsts[offset], offset)))
