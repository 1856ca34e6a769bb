"""The findings of a verification: each has a kind, a place, what was seen, and what that means."""

from collections import Counter
from collections.abc import Iterator
from enum import Enum, StrEnum
from pathlib import Path
from typing import NamedTuple

MAX_OF_A_KIND = 20  # listed for one file: enough to see what happened


class Severity(StrEnum):
    FAULT = "fault"  # something is wrong
    NOTE = "note"  # something to know


FAULT, NOTE = Severity.FAULT, Severity.NOTE


_RECOVER = "an unclean stop leaves this; the broker cuts it off when it starts"
_REPLACE = "if other replicas are in sync, stop the broker and move the directory away: it copies the partition again"
_REBUILD = (
    f"wrong lookups, the log itself is not concerned; {_REPLACE}; if there are none, and no fault in the `.log`, move "
    "the segment's `.index` away: a start without it makes all of its indexes again"
)
_LOST = f"committed records may be missing; compare with the other replicas (`replog audit run`), then {_REPLACE}"
_CLEANED = (
    "normal in a compacted topic, even where nothing was cleaned but a cleaned replica was copied: if this is one, "
    "verify it with --compacted"
)
_AT_START = "the broker removes it, or puts it in its place, when it starts"


class Kind(Enum):
    """A kind of finding: its severity, its meaning and the remedy."""

    UNREADABLE = FAULT, "the file cannot be read: check its permissions and the disk"
    STRAY = NOTE, "not a file of a log; brokers ignore it"
    STRAY_DIRECTORY = NOTE, "Kafka's broker does not start with it (FN-1), replog's ignores it; move it away"
    VANISHED = NOTE, "it was deleted or replaced while this ran"
    LEFTOVER = NOTE, f"left by a deletion, a compaction or a replacement under way; {_AT_START}"
    SET_ASIDE = NOTE, "a replica on its way out or in (FN-1); its files are not verified"
    STRAY_SEGMENT = (
        NOTE,
        "a start has set it aside, because what comes before it was lost (LD-6), and no start deletes it; if no other "
        "replica has its records, stop the broker, put the missing file back, and take `.stray` off the names",
    )
    ORPHAN = NOTE, "its `.log` is not there; the broker removes it when it starts (LD-3)"
    MISSING_INDEX = NOTE, "lookups are slower until a broker makes it again, when it starts"
    IN_USE = NOTE, "a running broker uses this directory: its newest files change while they are verified"
    NO_TOPIC_ID = NOTE, "written by Kafka before 2.8, or its creation was interrupted; replog's broker needs it"
    MALFORMED = FAULT, f"a broker does not start with it, or ignores it; restore it, or {_REPLACE}"

    BATCH_HEADER = FAULT, f"no batch can be here (2.1): the bytes were damaged; {_REPLACE}"
    BATCH_CRC = FAULT, f"the bytes have changed since they were written (RB-1); {_REPLACE}"
    BASE_OFFSET = FAULT, f"no CRC covers the base offset (RB-2), and its neighbours say another; {_REPLACE}"
    BATCH_COUNT = FAULT, f"records are missing from the batch; {_CLEANED}"
    UNKNOWN_ATTRIBUTES = NOTE, "unknown attribute bits: a later version wrote the batch"
    HOLE = FAULT, f"offsets are missing; {_CLEANED}; else {_LOST}"
    OFFSET_BACK = FAULT, f"offsets go back or repeat; {_REPLACE}"
    OUTSIDE_SEGMENT = FAULT, f"the batch belongs to another segment; {_REPLACE}"
    EPOCH_BACK = FAULT, f"leader epochs never go back in a log; {_REPLACE}"
    RECORDS = FAULT, "the CRC is right, but the records are not (RB-3): a producer or a broker wrote them so"
    TIMESTAMPS = FAULT, "time lookups and retention use the batch's timestamp (RB-4), which does not match its records"
    CONTROL = FAULT, "not a valid control record (2.3): transactions cannot be followed through it"
    NOT_DECODED = NOTE, "too large to be decoded; its CRC was checked"
    TORN_TAIL = FAULT, f"the end of the log is torn although the last stop was clean; {_REPLACE}"
    UNCLEAN_TAIL = NOTE, _RECOVER
    TORN_SEGMENT = FAULT, f"only the newest segment may end in a torn batch; {_LOST}"
    SURPLUS = FAULT, f"no offset is missing, but who reads on, as a cleaner does, stops here; {_REPLACE}"

    INDEX_SHAPE = FAULT, f"part of an entry: the file was cut, or written by something else; {_REBUILD}"
    INDEX_ORDER = FAULT, f"entries must rise (IX-10, IX-15); {_REBUILD}"
    INDEX_ENTRY = FAULT, f"the entry does not match the batches; {_REBUILD}"
    INDEX_BEYOND = FAULT, f"the entry is for an offset after the end of the log; {_REBUILD}"
    INDEX_AHEAD = NOTE, f"the index is ahead of the log; {_RECOVER}"
    PREALLOCATED = NOTE, "space for entries to come (IX-2); trimmed when the segment rolls or the broker stops"
    NOT_TRIMMED = FAULT, f"only the newest segment's index may have space for more (IX-6); {_REBUILD}"
    NO_TIME_ENTRY = FAULT, f"lookups by time go back further than they need to; {_REBUILD}"
    DIGEST = FAULT, f"the digests do not match the batches, and audits use them; {_REBUILD}"

    TRANSACTION_INDEX = FAULT, f"READ_COMMITTED consumers would see or miss the wrong records; {_REBUILD}"
    SNAPSHOT = FAULT, "the broker takes an older one, or reads the log; remove the file while it is stopped"
    SNAPSHOT_AHEAD = NOTE, "of a state that the log no longer has; the broker removes it when it starts (PS-8)"
    SNAPSHOT_STATE = FAULT, "duplicates would get in or producers be refused; remove it while the broker is stopped"
    EPOCHS = FAULT, f"followers find divergence with it (EP-6); replog rebuilds it at a start, for Kafka {_REPLACE}"
    EPOCHS_BEHIND = NOTE, "a moment behind the log (divergence 31); a broker that starts corrects it (LD-10)"
    EPOCHS_AHEAD = NOTE, "epochs beyond the log's end; a broker that starts cuts them (LD-10)"

    CHECKPOINT = FAULT, f"the checkpoint is ahead of the log; {_LOST}"
    CHECKPOINT_AHEAD = NOTE, "the log lost its unflushed end in an unclean stop; a broker that starts corrects it"
    MISSING_PARTITION = NOTE, "the checkpoint names it, but its directory is missing: deleted, or lost"

    severity: Severity
    meaning: str

    def __new__(cls, severity: Severity, meaning: str) -> "Kind":
        kind = object.__new__(cls)
        kind._value_ = len(cls.__members__)  # otherwise kinds of the same meaning are one kind
        kind.severity = severity
        kind.meaning = meaning
        return kind

    def at(self, file: Path, found: str, *, position: int | None = None, offset: int | None = None) -> "Finding":
        """Return a finding of this kind in `file`, at a byte position and at a record offset, if known."""
        return Finding(self, file, position, offset, found)


class Fault(NamedTuple):
    """A fault of one segment: its place, the offsets that it concerns, and what was seen."""

    kind: Kind
    file: str  # the suffix of the segment's file
    position: int
    first: int
    last: int
    epoch: int
    detail: str


class Finding(NamedTuple):
    kind: Kind
    file: Path
    position: int | None
    offset: int | None
    found: str

    @property
    def severity(self) -> Severity:
        return self.kind.severity


def capped(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield at most `MAX_OF_A_KIND` of a kind in a file, and at the end how many more there were."""
    seen: Counter[tuple[Kind, Path]] = Counter()
    for finding in findings:
        seen[finding.kind, finding.file] += 1
        if seen[finding.kind, finding.file] <= MAX_OF_A_KIND:
            yield finding
    for (kind, file), count in seen.items():
        if count > MAX_OF_A_KIND:
            yield kind.at(file, f"and {count - MAX_OF_A_KIND} more of this kind")
