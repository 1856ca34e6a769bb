"""Batches and markers of producers, appended to a log as their leader takes them, and what consumers keep of them."""

from replog.log.formats.batch import CONTROL, BatchHeader, iterate_batches
from replog.log.formats.control_batch import AbortedBatches, EndTransactionMarker, build_end_transaction_marker
from replog.log.log import Log
from replog.log.offsets import AppendInfo, AppendOrigin, FetchData
from tests.replog.log.batches import client_batch


def batch(
    epoch: int, sequence: int, count: int = 1, *, pid: int = 1, transactional: bool = False, timestamp: int = 1000
) -> bytes:
    """A client's batch of `count` records."""
    return client_batch(
        *[b"v"] * count,
        timestamps=[timestamp] * count,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def marker(pid: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0, timestamp: int = 1000) -> bytes:
    """What a coordinator sends to end a transaction."""
    return build_end_transaction_marker(
        EndTransactionMarker(commit, coordinator_epoch), producer_id=pid, producer_epoch=epoch, timestamp=timestamp
    )


def produce(log: Log, *batches: bytes, origin: AppendOrigin = AppendOrigin.CLIENT) -> list[AppendInfo]:
    return [log.append_as_leader(data, leader_epoch=0, now_ms=0, origin=origin) for data in batches]


def send(log: Log, epoch: int, sequence: int, count: int = 1, *, pid: int = 1) -> tuple[int, int]:
    """First and last offset that the log gave the batch."""
    (info,) = produce(log, batch(epoch, sequence, count, pid=pid))
    return info.first_offset, info.last_offset


def transact(log: Log, pid: int, sequence: int, count: int = 1) -> None:
    """Data within a transaction, which the first such batch opens."""
    produce(log, batch(0, sequence, count, pid=pid, transactional=True))


def end(log: Log, pid: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    """End the open transaction; the offset of the marker."""
    data = marker(pid, commit=commit, epoch=epoch, coordinator_epoch=coordinator_epoch)
    (info,) = produce(log, data, origin=AppendOrigin.COORDINATOR)
    return info.first_offset


def kept(data: FetchData) -> list[tuple[int, BatchHeader]]:
    """Position and header of the data batches that a READ_COMMITTED consumer keeps of an answer (LG-9)."""
    aborted = AbortedBatches(data.aborted)
    return [
        (position, header)
        for position, header in iterate_batches(data.records)
        if not aborted.hides(data.records, position, header) and not header.attributes & CONTROL
    ]
