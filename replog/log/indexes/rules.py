"""Rules for what an entry of an index may say about its batch, for checks of indexes against a log.

Kafka writes the same files as replog, and not always the same offsets. A segment that has a digest index is replog's,
up to the last digest, and is `exact` there. Kafka, which writes no digests, may have written the rest."""

from replog.log.formats.batch import BatchHeader


def ends_batch(header: BatchHeader, offset: int, cleaned_to: int) -> bool:
    """Return True if an index may call `offset` the batch's last. Below `cleaned_to` it may be that of the last record
    that Kafka's cleaner kept."""
    return offset == header.last_offset or header.base_offset <= offset < min(header.last_offset, cleaned_to)


def times_batch(header: BatchHeader, offset: int, cleaned_to: int, *, exact: bool) -> bool:
    """Return True if a time index's entry with `offset` may belong to this batch.

    It has the batch's last offset. Leaders of older Kafka (3.3) have that of the record with the timestamp instead."""
    if exact:
        return ends_batch(header, offset, cleaned_to)
    return header.base_offset <= offset <= header.last_offset
