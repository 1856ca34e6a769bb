"""The records of batches, one after the other."""

from collections.abc import Iterator

from replog.client.records import Record, decode_fetched
from replog.log.offsets import Buffer


def decode(buffer: Buffer, topic: str = "", partition: int = 0, fetch_offset: int = 0) -> Iterator[Record]:
    return iter(decode_fetched(buffer, topic, partition, fetch_offset).records)
