"""Separates damage from changes during the read: a fault counts only if it is seen twice."""

from collections.abc import Callable, Iterator

from replog.log.files.names import LOG_SUFFIX
from replog.log.formats.segment_file import Vanished
from spark_jobs.replicas.faults import UNREADABLE, VANISHED, FileFault, Item
from spark_jobs.replicas.files import ReplicaSegment

Look = Callable[[ReplicaSegment, int], Iterator[Item | FileFault]]  # takes a segment and the log start offset


def settled(look: Look[Item], segment: ReplicaSegment, log_start: int) -> Iterator[Item | FileFault]:
    """Yield what `look` finds in a segment; then the faults that it finds again in the segment as it is by then.

    If a fault is not seen again, or the segment is gone or cut, one fault of class VANISHED follows. If a file cannot
    be read, the faults found so far and one of class UNREADABLE follow.
    """
    faults: dict[tuple[str, str, int, int], FileFault] = {}
    try:
        for item in look(segment, log_start):
            if isinstance(item, FileFault):
                faults.setdefault(_same(item), item)
            else:
                yield item
        if faults:
            now, start = segment.again()
            again = {_same(item) for item in look(now, max(log_start, start)) if isinstance(item, FileFault)}
            _, start = segment.again()
            # If the log start has moved, the epoch checkpoint has lost the epochs below it.
            kept = [f for key, f in faults.items() if key in again and not (f.last < start and start > log_start)]
            yield from kept
            if len(kept) < len(faults):
                yield _about(segment, VANISHED, "what was wrong here is not seen any more: the log has moved on")
    except Vanished as error:
        yield unread(segment, error)
    except OSError as error:
        yield from faults.values()
        yield unread(segment, error)


def _same(fault: FileFault) -> tuple[str, str, int, int]:
    return fault.fault, fault.file, fault.position, fault.first


def unread(segment: ReplicaSegment, error: OSError) -> FileFault:
    """Return the fault of a segment that could not be read to its end."""
    return _about(segment, VANISHED if isinstance(error, Vanished) else UNREADABLE, str(error))


def _about(segment: ReplicaSegment, kind: str, detail: str) -> FileFault:
    last = segment.base if segment.next_base is None else segment.next_base - 1
    return FileFault(kind, LOG_SUFFIX, 0, segment.base, last, -1, detail)
