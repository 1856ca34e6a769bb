"""Reads the records of a log from its files."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from replog.log.compaction.rewriting import delete_horizon
from replog.log.formats.batch import CONTROL, TRANSACTIONAL, iterate_batches
from replog.log.formats.control_batch import marker_or_none
from replog.log.formats.records import LogRecord, iterate_records


class Kept(NamedTuple):
    record: LogRecord
    epoch: int
    producer_id: int
    transactional: bool
    commits: bool | None  # True or False: a marker that commits or aborts; None: data
    expires: bool  # a cleaning has set when it may go (CL-6)


Records = Mapping[int, Kept]  # keys are offsets, in rising order


def records_of(files: Iterable[tuple[Path, int]], start: int = 0) -> Iterator[Kept]:
    """Yield the records from offset `start` on. `files`: the segments' paths and sizes, in order."""
    for path, size in files:
        data = path.read_bytes()[:size]
        for position, header in iterate_batches(data):
            if header.next_offset <= start:
                continue
            marker = marker_or_none(data, header, position)
            for record in iterate_records(data, header, position):
                if record.offset >= start:
                    yield Kept(
                        record,
                        header.leader_epoch,
                        header.producer_id,
                        bool(header.attributes & TRANSACTIONAL),
                        marker.committed if header.attributes & CONTROL and marker is not None else None,
                        delete_horizon(header) is not None,
                    )


def transactions(records: Records) -> tuple[set[int], set[int]]:
    """Return the offsets of aborted data, and those of data that no marker decides."""
    void: set[int] = set()
    undecided: dict[int, set[int]] = {}
    for offset, kept in records.items():
        if kept.commits is not None:
            ended = undecided.pop(kept.producer_id, set())
            void |= set() if kept.commits else ended
        elif kept.transactional:
            undecided.setdefault(kept.producer_id, set()).add(offset)
    return void, set().union(*undecided.values())


def latest_values(records: Iterable[Kept], start: int) -> dict[bytes | None, LogRecord]:
    """Return the latest record of each key, also a tombstone, from offset `start` on, without aborted data."""
    by_offset = {kept.record.offset: kept for kept in records if kept.record.offset >= start}
    void, _ = transactions(by_offset)
    kept = (each for offset, each in by_offset.items() if each.commits is None and offset not in void)
    return {each.record.key: each.record for each in kept}
