"""What an entry of an index may say of the batch that it speaks of, for checks of indexes against a log.

Kafka writes the same files as replog, and not always the same offsets. A segment that has a digest index is replog's,
up to the last digest: `exact` there. Behind it Kafka may have gone on, which does not write one."""

from replog.log.formats.batch import BatchHeader


def ends_batch(header: BatchHeader, offset: int, cleaned_to: int) -> bool:
    """Whether an index may call `offset` the batch's last. Below `cleaned_to` it may be that of the last record that
    Kafka's cleaner kept."""
    return offset == header.last_offset or header.base_offset <= offset < min(header.last_offset, cleaned_to)


def times_batch(header: BatchHeader, offset: int, cleaned_to: int, *, exact: bool) -> bool:
    """Whether an entry of the time index that has `offset` speaks of this batch.

    It has the batch's last offset. Leaders of older Kafka (3.3) have that of the record with the timestamp instead."""
    if exact:
        return ends_batch(header, offset, cleaned_to)
    return header.base_offset <= offset <= header.last_offset
