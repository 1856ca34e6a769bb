"""Checks the keys of compacted topics (2.7): only here does a broker look into records that it is sent."""

from replog.config import TopicConfig
from replog.log.errors import InvalidRecord
from replog.log.formats.batch import CODEC_MASK, HEADER_SIZE, BatchHeader
from replog.log.formats.compression import MAX_UNCOMPRESSED_BYTES, decompress
from replog.log.formats.record_slices import MAX_RECORDS, slice_records
from replog.log.offsets import NO_TIMESTAMP, Buffer

MAX_EXPANSION = 16  # a leader looks through so many times `max.message.bytes`, uncompressed


def check_keys(records: Buffer, header: BatchHeader, config: TopicConfig) -> None:
    """Raise InvalidRecord, naming the first record without a key; or if the records do not decode, or to too much."""
    if header.records_count > MAX_RECORDS:
        raise InvalidRecord(
            f"the batch has {header.records_count} records, more than the {MAX_RECORDS} of which "
            f"cleanup.policy={config.cleanup_policy} has a leader check the keys; send smaller batches"
        )
    limit = min(MAX_EXPANSION * config.max_message_bytes, MAX_UNCOMPRESSED_BYTES)
    raw = decompress(header.attributes & CODEC_MASK, bytes(records[HEADER_SIZE:]), limit)
    for index, record in enumerate(slice_records(raw, header.records_count)):
        if record.offset_delta != index:
            raise InvalidRecord(f"record {index} of the batch has offset delta {record.offset_delta}")
        timestamp = header.base_timestamp + record.timestamp_delta
        if not NO_TIMESTAMP <= timestamp < 2**63:  # a delta could not reach it from a delete horizon
            raise InvalidRecord(f"record {index} of the batch has a timestamp of {timestamp}, which is none")
        if record.key is None:
            raise InvalidRecord(
                f"record {index} of {header.records_count} has no key, which cleanup.policy={config.cleanup_policy} "
                "needs; nothing of the batch was appended"
            )
