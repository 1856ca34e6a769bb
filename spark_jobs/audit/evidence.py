"""Reads the bytes around a finding again from the replicas: headers, index entries, epochs, a hex dump.

It needs no Spark. Its output is bounded, even if the files are hostile: a few entries and lines, at most `MAX_COMPARED`
bytes of a batch read, `WINDOW` bytes of it shown.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from replog.log.errors import CorruptRecord
from replog.log.files.names import (
    DIGEST_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    base_offset_of,
    segment_file_name,
)
from replog.log.formats.batch import HEADER, HEADER_SIZE, BatchHeader, add_digests, batch_digest
from replog.log.formats.walk import Break, LogFile
from replog.log.indexes.entries import LAYOUTS
from replog.log_tools.dump import BatchRow
from replog.topic import TopicPartition
from spark_jobs.replicas.files import PartitionFiles, ReplicaSegment, ReplicaStore, last_indexed, open_log

WINDOW = 192  # bytes of a hex dump
BEFORE = 48  # bytes of it before the first difference
NEIGHBOURS = 3  # entries shown on either side
MAX_WALKED = 64 << 20  # bytes of log to search for a batch
MAX_COMPARED = 16 << 20

_ENTRIES = {
    INDEX_SUFFIX: ("offset", "position"),
    TIME_INDEX_SUFFIX: ("timestamp", "offset"),
    DIGEST_SUFFIX: ("offset", "digest"),
}
"""The fields of each index's entries."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Sight:
    """One replica's view of an offset: a batch, bytes that are no batch, or nothing."""

    replica: int
    file: str = ""
    segment: ReplicaSegment | None = None
    position: int = 0
    header: BatchHeader | None = None
    crc: int | None = None  # computed from the bytes; None if there is no whole batch
    note: str = ""

    @property
    def sound(self) -> bool:
        return self.header is not None and self.crc == self.header.crc

    def read(self, size: int) -> bytes:
        """Return bytes from the position on. Raises OSError."""
        assert self.segment is not None
        with self.segment.open(LOG_SUFFIX) as log:
            return log.read(self.position, min(size, MAX_COMPARED))


def evidence_of(finding: Mapping[str, Any], stores: Iterable[ReplicaStore]) -> Json:
    """Return what the partition's replicas hold at the finding's place: `headers`, `bytes`, `indexes`, `epochs`.

    Damaged or missing files raise nothing: a `note` reports them.
    """
    partition = TopicPartition(finding["topic"], finding["partition"])
    held: dict[int, PartitionFiles] = {}
    for store in stores:
        for files in store.partitions(frozenset({partition.topic})):
            known = files.replica in held
            if files.partition in (partition, TopicPartition("", -1)) and (files.segments or not known):
                held[files.replica] = files
    replicas = [held[replica] for replica in sorted(held)]
    offset = finding["first_offset"]
    shown: Json = {"headers": [], "differs": [], "bytes": [], "indexes": [], "epochs": []}
    shown["indexes"] = [_index(held.get(e["replica"]), e) for e in finding["evidence"] if _suffix(e) in _ENTRIES]
    if offset is None:
        return shown
    positions = {e["replica"]: e for e in finding["evidence"] if _suffix(e) == LOG_SUFFIX and e["position"] is not None}
    sights = [_sight(files, offset, positions.get(files.replica)) for files in replicas]
    shown["headers"] = list(map(_column, sights))
    shown["differs"] = _differing([column["fields"] for column in shown["headers"] if column["fields"]])
    shown["bytes"] = _dumps(sights, [finding["wrong_replica"], *(e["replica"] for e in finding["evidence"])])
    shown["epochs"] = [_epochs(files, offset) for files in replicas]
    return shown


def _suffix(evidence: Mapping[str, Any]) -> str:
    return "." + str(evidence["file"]).rpartition(".")[2]


# -- batches


def _sight(files: PartitionFiles, offset: int, evidence: Mapping[str, Any] | None) -> Sight:
    """Return the batch that has `offset`, or the bytes at the position that the audit saw."""
    if files.error is not None:
        return Sight(files.replica, note=f"cannot be read: {files.error}")
    below = [segment for segment in files.segments if segment.base <= offset]
    segment = _segment_named(files, evidence) if evidence is not None else below[-1] if below else None
    if segment is None:
        gone = "its segment is gone since the audit" if evidence is not None else "no such offset"
        return Sight(files.replica, note=f"{gone}; the log {_extent(files)}")
    file = f"{files.place}/{segment_file_name(segment.base, LOG_SUFFIX)}"
    try:
        with segment.open(LOG_SUFFIX) as opened:
            log = LogFile(opened)
            position = evidence["position"] if evidence is not None else find_batch(segment, log, offset)
            if position is None:
                return Sight(files.replica, file, note=f"no batch with offset {offset}; the log {_extent(files)}")
            place = (files.replica, file, segment, position)
            try:
                header = log.header(position)
            except CorruptRecord as error:
                raw = opened.read(position, HEADER_SIZE)
                stored = BatchHeader._make(HEADER.unpack(raw)) if len(raw) == HEADER_SIZE else None
                return Sight(*place, stored, None, f"no batch: {error.message}")
            return Sight(*place, header, log.crc(position, header))
    except OSError as error:
        return Sight(files.replica, file, note=f"cannot be read: {error}")


def _segment_named(files: PartitionFiles, evidence: Mapping[str, Any]) -> ReplicaSegment | None:
    base = base_offset_of(evidence["file"].rpartition("/")[2])
    return next((segment for segment in files.segments if segment.base == base), None)


def _extent(files: PartitionFiles) -> str:
    if not files.segments:
        return "has no segments"
    return f"starts at {files.log_start}, its last segment at {files.segments[-1].base}"


def find_batch(segment: ReplicaSegment, log: LogFile, offset: int) -> int | None:
    """Return the position of the batch that has `offset`, searched from the last true index entry below it."""
    start = last_indexed(segment, log, offset)
    for item in log.walk(start):
        if isinstance(item, Break):
            return None if item.cut_short else item.position
        position, header = item
        if header.last_offset >= offset:
            return position if header.base_offset <= offset else None
        if position - start > MAX_WALKED:
            return None
    return None


def _column(sight: Sight) -> Json:
    column: Json = {"replica": sight.replica, "file": sight.file, "position": sight.position, "note": sight.note}
    header = sight.header
    if header is None:
        return {**column, "fields": None}
    fields = BatchRow(sight.position, header, sight.sound).named()
    for name in ("position", "isControl", "crc", "isValid"):  # reported in another way, or not checked
        del fields[name]
    computed = None if sight.crc is None else f"{sight.crc:08x}"
    fields |= {"magic": header.magic, "crc": f"{header.crc:08x}", "crcComputed": computed, "isValid": sight.sound}
    return {**column, "fields": fields}


def _differing(columns: Sequence[Json]) -> list[str]:
    return [name for name in columns[0] if len({column[name] for column in columns}) > 1] if columns else []


# -- bytes


def _dumps(sights: Sequence[Sight], suspects: Sequence[int | None]) -> list[Json]:
    """Return the same window of bytes of the first suspect, and of a replica whose batch differs."""
    readable = {sight.replica: sight for sight in sights if sight.header is not None}
    suspect = next((readable[replica] for replica in suspects if replica in readable), None)
    if suspect is None:
        return []
    for other in readable.values():
        if other is suspect or other.header is None or not other.sound:
            continue
        try:
            one, two = suspect.read(other.header.size), other.read(other.header.size)
        except OSError:
            continue
        if one != two:
            return [_window(suspect, one, two, other.replica), _window(other, two, one, suspect.replica)]
    try:
        return [] if suspect.sound else [_window(suspect, suspect.read(WINDOW))]
    except OSError as error:
        return [{**_window(suspect, b""), "note": f"cannot be read: {error}"}]


def _window(sight: Sight, own: bytes, theirs: bytes | None = None, other: int | None = None) -> Json:
    """Return bytes from before the first that differs; additional bytes of a longer batch count as different."""
    first, count = None, 0
    if theirs is not None:
        common = min(len(own), len(theirs))
        changed = (int.from_bytes(own[:common]) ^ int.from_bytes(theirs[:common])).to_bytes(common)
        first = common - len(changed.lstrip(b"\0"))
        count = common - changed.count(0) + max(len(own), len(theirs)) - common
    start = max(0, (first or 0) - BEFORE) // 16 * 16
    shown = own[start : start + WINDOW]
    beside = shown if theirs is None else theirs[start : start + WINDOW]
    differs = [n for n, (a, b) in enumerate(zip(shown, beside, strict=False)) if a != b]
    place = {"replica": sight.replica, "file": sight.file, "batch": sight.position, "from": start, "note": ""}
    diff = {"first_difference": first, "differing": count, "compared_with": other}
    return {**place, "hex": shown.hex(), "differs": differs, **diff}


# -- indexes


def _index(files: PartitionFiles | None, evidence: Mapping[str, Any]) -> Json:
    """Return the entries around the wrong one, and what the log says about each."""
    suffix = _suffix(evidence)
    shown: Json = {"replica": evidence["replica"], "file": evidence["file"], "entries": [], "note": ""}
    segment = _segment_named(files, evidence) if files is not None else None
    if segment is None:
        return {**shown, "note": "the segment is gone since the audit"}
    layout, names = LAYOUTS[suffix], _ENTRIES[suffix]
    slot = (evidence["position"] or 0) // layout.size
    begin = max(0, slot - NEIGHBOURS - 1)  # the entry before the first that is shown
    try:
        with segment.open(suffix) as file:
            raw = file.read(begin * layout.size, (slot + NEIGHBOURS + 1 - begin) * layout.size)
        stored = layout.iter_unpack(raw[: len(raw) // layout.size * layout.size])
        before = None if begin else (segment.base, 0)  # the offset after the entry before, and its digest
        with open_log(segment) as log:
            for number, fields in enumerate(stored, begin):
                entry = dict(zip(names, fields, strict=True))
                entry["offset"] += segment.base
                if number >= slot - NEIGHBOURS:
                    digits = {"digest": f"{entry['digest']:016x}"} if "digest" in entry else {}
                    said = {"log": _log_says(suffix, segment, log, entry, before), "suspect": number == slot}
                    shown["entries"].append({"entry": number, **entry, **digits, **said})
                before = entry["offset"] + 1, entry.get("digest", 0)
    except OSError as error:
        shown["note"] = f"cannot be read: {error}"
    return shown


def _log_says(
    suffix: str, segment: ReplicaSegment, log: LogFile, entry: dict[str, int], before: tuple[int, int] | None
) -> str:
    try:
        if suffix == INDEX_SUFFIX:
            header = log.header(entry["position"]) if entry["position"] >= 0 else None
            return "no batch" if header is None else f"batch of offsets {header.base_offset} to {header.last_offset}"
        if suffix == TIME_INDEX_SUFFIX:
            at = find_batch(segment, log, entry["offset"])
            return "no such batch" if at is None else f"greatest timestamp {log.header(at).max_timestamp}"
        assert before is not None  # only the entry that is not shown has none
        first, digest = before
        for header in _headers(segment, log, first, entry["offset"]):
            digest = add_digests(digest, batch_digest(header))
        return f"batches since the entry before make {digest:016x}"
    except CorruptRecord as error:
        return f"no batch: {error.message}"


def _headers(segment: ReplicaSegment, log: LogFile, first: int, last: int) -> Iterator[BatchHeader]:
    start = find_batch(segment, log, first)
    if start is None:
        return
    for item in log.walk(start):
        if isinstance(item, Break) or item[1].base_offset > last or item[0] - start > MAX_WALKED:
            return
        yield item[1]


# -- epochs


def _epochs(files: PartitionFiles, offset: int) -> Json:
    """Return the checkpoint's entries around the one that covers `offset`."""
    shown: Json = {"replica": files.replica, "file": "", "entries": [], "note": ""}
    if files.error is not None:
        return {**shown, "note": f"cannot be read: {files.error}"}
    checkpoint = files.epochs()
    entries = checkpoint.entries
    slot = bisect_right(entries, offset, key=itemgetter(1)) - 1
    first = max(0, slot - NEIGHBOURS)
    around = entries[first : max(slot, 0) + NEIGHBOURS + 1]
    listed = [
        {"epoch": epoch, "start_offset": start, "covers": number == slot}
        for number, (epoch, start) in enumerate(around, first)
    ]
    note = checkpoint.detail or ("" if entries else "the epoch checkpoint is missing or empty")
    return {**shown, "file": checkpoint.path, "entries": listed, "note": note}
