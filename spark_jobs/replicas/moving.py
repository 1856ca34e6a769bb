"""What moves while it is read is no damage: a fault counts if it is seen twice."""

from collections.abc import Callable, Iterator

from replog.log.files.names import LOG_SUFFIX
from replog.log.formats.segment_file import Vanished
from spark_jobs.replicas.faults import UNREADABLE, VANISHED, FileFault, Item
from spark_jobs.replicas.files import ReplicaSegment

Look = Callable[[ReplicaSegment, int], Iterator[Item | FileFault]]  # at a segment, given the log start offset


def settled(look: Look[Item], segment: ReplicaSegment, log_start: int) -> Iterator[Item | FileFault]:
    """What `look` finds in a segment; faults last, and only those that it finds again in the segment as it is then.

    Where a second look no longer sees a fault, or the segment is gone or cut, there is one fault of class VANISHED.
    Where a file cannot be read there is one of class UNREADABLE, behind the faults that were found before it.
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
            # Below a log start that has moved, the epoch checkpoint says nothing any more.
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
    """What there is to say of a segment that could not be read to its end."""
    return _about(segment, VANISHED if isinstance(error, Vanished) else UNREADABLE, str(error))


def _about(segment: ReplicaSegment, kind: str, detail: str) -> FileFault:
    last = segment.base if segment.next_base is None else segment.next_base - 1
    return FileFault(kind, LOG_SUFFIX, 0, segment.base, last, -1, detail)
