"""Checks an append: one client batch on a leader (2.7), replicated batches on a follower (2.8).

Only headers are read, and the CRC is computed once; records are touched for compacted topics alone."""

from collections.abc import Iterable, Iterator

from replog.config.topic import TopicConfig
from replog.errors import ErrorCode, ReplogError
from replog.log.errors import CorruptRecord, InvalidRecord, OffsetsOutOfOrder, UnexpectedAppendOffset
from replog.log.formats.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LEAST_RECORD_BYTES,
    LOG_APPEND_TIME,
    MAX_CODEC,
    TRANSACTIONAL,
    BatchHeader,
    iterate_batches,
    parse_header,
    validate_crc,
    with_crc,
)
from replog.log.formats.compression import MAX_UNCOMPRESSED_BYTES, decompress
from replog.log.formats.records import MAX_RECORDS, slice_records
from replog.log.offsets import NO_TIMESTAMP, AppendOrigin, Buffer

SHOWN = 1000  # records at fault of one batch that its producer is told of
MAX_EXPANSION = 16  # a leader looks through so many times `max.message.bytes`, uncompressed


def check_leader_batch(records: Buffer, config: TopicConfig, origin: AppendOrigin) -> BatchHeader:
    """Return the header of the one batch that `records` must be, fit to be appended by a leader.

    Only a transaction coordinator writes control batches. Raises CorruptRecord, InvalidRecord, INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE."""
    header = parse_header(records)
    size = header.size
    if size > len(records):
        raise CorruptRecord(f"the batch says that it has {size} bytes, and {len(records)} came")
    if size < len(records):
        message = f"{len(records) - size} bytes follow the batch; send exactly one batch"
        raise InvalidRecord(message) if _begins_a_batch(records, size) else CorruptRecord(message)
    if size > config.max_message_bytes:
        raise ErrorCode.MESSAGE_TOO_LARGE.error(
            f"a batch of {size} bytes exceeds max.message.bytes={config.max_message_bytes}; send smaller batches, "
            "or raise that setting of the topic"
        )
    if size > config.segment_bytes:
        raise ErrorCode.RECORD_LIST_TOO_LARGE.error(
            f"a batch of {size} bytes exceeds segment.bytes={config.segment_bytes}"
        )
    if not validate_crc(records, 0, header):
        raise CorruptRecord(f"the CRC of the batch is not {header.crc:08x}, as its header says")
    if header.base_offset != 0:
        raise InvalidRecord(f"base offset {header.base_offset} of a client's batch is not 0")
    if header.records_count == 0 or header.records_count != header.last_offset_delta + 1:
        raise InvalidRecord(f"{header.records_count} records do not fill {header.last_offset_delta + 1} offsets")
    room = MAX_UNCOMPRESSED_BYTES if header.attributes & CODEC_MASK else size - HEADER_SIZE
    if header.records_count * LEAST_RECORD_BYTES > room:
        raise InvalidRecord(f"{header.records_count} records do not fit the {room} bytes of the batch, uncompressed")
    if header.attributes & CONTROL and origin is not AppendOrigin.COORDINATOR:
        raise InvalidRecord("clients may not append control batches")
    unknown = header.attributes & ~(CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    if unknown or header.attributes & CODEC_MASK > MAX_CODEC:
        raise InvalidRecord(f"batch attributes {header.attributes & 0xFFFF:#06x} name no known codec or flag")
    if header.producer_id >= 0:
        if header.producer_epoch < 0 or (header.base_sequence < 0 and origin is AppendOrigin.CLIENT):
            raise InvalidRecord(
                f"producer {header.producer_id} sent epoch {header.producer_epoch}, base sequence "
                f"{header.base_sequence}; neither may be negative"
            )
    elif header.attributes & TRANSACTIONAL:
        raise InvalidRecord(f"a transactional batch has producer id {header.producer_id}")
    if config.message_timestamp_type == "CreateTime" and header.attributes & LOG_APPEND_TIME:
        raise ErrorCode.INVALID_TIMESTAMP.error(
            "a client may not mark a batch LogAppendTime on a topic with CreateTime"
        )
    return header


def check_times(header: BatchHeader, config: TopicConfig, now_ms: int, apart_ms: int) -> None:
    """Raise INVALID_TIMESTAMP if a batch's first or greatest time is too far from now (D56). Now is `now_ms`, or
    `apart_ms` earlier by another clock (CT-28)."""
    if config.message_timestamp_type == "LogAppendTime":
        return
    first, greatest = header.base_timestamp, header.max_timestamp
    latest = max(first, greatest)
    if latest - now_ms > config.message_timestamp_after_max_ms:
        bound = f"message.timestamp.after.max.ms={config.message_timestamp_after_max_ms}"
        raise ErrorCode.INVALID_TIMESTAMP.error(_dated(latest, f"{latest - now_ms} ms after", bound))
    earliest, least_ms = min(first, greatest), now_ms - apart_ms
    if earliest > NO_TIMESTAMP and least_ms - earliest > config.message_timestamp_before_max_ms:
        bound = f"message.timestamp.before.max.ms={config.message_timestamp_before_max_ms}"
        raise ErrorCode.INVALID_TIMESTAMP.error(_dated(earliest, f"{least_ms - earliest} ms before", bound))


def _dated(timestamp: int, how_far: str, bound: str) -> str:
    return (
        f"the batch has a record dated {timestamp}, {how_far} the leader's clock, and {bound} is the most; "
        "send milliseconds since 1970, look at the clocks, or alter that setting of the topic"
    )


def _begins_a_batch(records: Buffer, position: int) -> bool:
    try:
        return position + parse_header(records, position).size <= len(records)
    except CorruptRecord:
        return False


def stamp(
    header: BatchHeader, records: Buffer, *, base_offset: int, leader_epoch: int, append_time: int | None
) -> tuple[BatchHeader, bytes]:
    """Return the header as the leader writes it (2.7 step 5), parsed and as bytes; `append_time` None keeps timestamps.

    Base offset and leader epoch are outside of the CRC, which changes only with the timestamps (RB-2)."""
    _, length, _, *rest = header
    stamped = BatchHeader._make((base_offset, length, leader_epoch, *rest))
    if append_time is not None:
        stamped = stamped._replace(attributes=header.attributes | LOG_APPEND_TIME, max_timestamp=append_time)
        stamped = with_crc(stamped, memoryview(records)[HEADER_SIZE:])
    return stamped, HEADER.pack(*stamped)


def with_head(head: bytes, batch: Buffer) -> Buffer:
    """Put this header on the batch, in place if that is allowed and keeps not much more memory in use."""
    view = memoryview(batch)
    whole: bytes | bytearray = view.obj  # type: ignore[assignment]  # a view of a view has the same
    if view.readonly or len(whole) > 2 * len(view):
        return b"".join((head, view[HEADER_SIZE:]))
    view[:HEADER_SIZE] = head
    return view


def check_replicated_batches(
    records: Buffer, log_end_offset: int, latest_epoch: int, *, holes: bool
) -> tuple[list[tuple[int, BatchHeader]], ReplogError | None]:
    """Return the good batches at the front of `records`, with positions, and why the rest may not follow the log (2.8,
    stricter): by CRC, header, offset or epoch.

    Every batch must begin where the one before it ended, the first at the log end (with `holes`, those of a compacted
    topic, there or later), and its leader epoch may not be negative or fall. A trailing part of a batch is dropped."""
    good: list[tuple[int, BatchHeader]] = []
    next_offset, epoch = log_end_offset, max(latest_epoch, 0)
    try:
        for position, header in iterate_batches(records):
            if header.base_offset != next_offset or header.leader_epoch < epoch:
                if not good and not continues(header, next_offset, holes=holes):
                    raise UnexpectedAppendOffset(
                        f"batch {header.base_offset} to {header.last_offset} does not begin at log end {next_offset}",
                        header.base_offset,
                        header.last_offset,
                    )
                if fault := fault_of(header, next_offset, epoch, holes=holes):
                    raise OffsetsOutOfOrder(fault)
            if not validate_crc(records, position, header):
                raise CorruptRecord(f"the CRC of replicated batch {header.base_offset} is not {header.crc:08x}")
            good.append((position, header))
            next_offset, epoch = header.next_offset, header.leader_epoch
    except ReplogError as error:
        return good, error
    return good, None


def continues(header: BatchHeader, next_offset: int, *, holes: bool) -> bool:
    """Return True if a batch may come at `next_offset`, or behind a hole that compaction has left (CL-8)."""
    return header.base_offset >= next_offset if holes else header.base_offset == next_offset


def fault_of(header: BatchHeader, next_offset: int, epoch: int, *, holes: bool) -> str | None:
    """Say why a batch may not follow a log that ends before `next_offset` in leader epoch `epoch`; None if it may."""
    if not continues(header, next_offset, holes=holes):
        return f"batch {header.base_offset} to {header.last_offset} does not begin at offset {next_offset}"
    if header.leader_epoch < epoch:
        return f"batch {header.base_offset} has leader epoch {header.leader_epoch}, below {epoch}"
    return None


def epoch_starts(batches: Iterable[tuple[int, BatchHeader]], log_end_offset: int) -> Iterator[tuple[int, int]]:
    """Yield each leader epoch of these batches, and where it begins, or may, in a log that ends at `log_end_offset`.

    A hole before an epoch's first batch counts as its own: the epoch may have begun anywhere in there, and a replica
    that has the hole's records in an older epoch must not keep them as committed."""
    epoch, next_offset = -1, log_end_offset
    for _, header in batches:
        if header.leader_epoch != epoch:
            epoch = header.leader_epoch
            yield epoch, next_offset
        next_offset = header.next_offset


def check_keys(records: Buffer, header: BatchHeader, config: TopicConfig) -> None:
    """Raise InvalidRecord, naming the records without a key; or if the records do not decode, or to too much.

    Only for compacted topics does a broker look into records that it is sent."""
    if header.records_count > MAX_RECORDS:
        raise InvalidRecord(
            f"the batch has {header.records_count} records, more than the {MAX_RECORDS} of which "
            f"cleanup.policy={config.cleanup_policy} has a leader check the keys; send smaller batches"
        )
    limit = min(MAX_EXPANSION * config.max_message_bytes, MAX_UNCOMPRESSED_BYTES)
    raw = decompress(header.attributes & CODEC_MASK, bytes(records[HEADER_SIZE:]), limit)
    keyless: list[int] = []
    for index, record in enumerate(slice_records(raw, header.records_count)):
        if record.offset_delta != index:
            raise InvalidRecord(f"record {index} of the batch has offset delta {record.offset_delta}")
        timestamp = header.base_timestamp + record.timestamp_delta
        if not NO_TIMESTAMP <= timestamp < 2**63:  # a delta could not reach it from a delete horizon
            raise InvalidRecord(f"record {index} of the batch has a timestamp of {timestamp}, which is none")
        if record.key is None:
            keyless.append(index)
    if keyless:
        raise InvalidRecord(
            f"record {keyless[0]} of {header.records_count} has no key, which cleanup.policy={config.cleanup_policy} "
            "needs; nothing of the batch was appended",
            keyless[:SHOWN],
        )
