"""The records of chunks that still count, and the chunks to clean. Pure."""

from collections import defaultdict
from collections.abc import Iterable

from replog.rpc.v1 import metadata_pb2
from replog.rpc.v1.etcd_store_pb2 import StoreChunk
from replog.server.controller.current_records import prefix_of

CLEANED_AT_ONCE = 100  # chunks


class LiveRecords:
    """The newest record of every key counts until its key is forgotten. Chunks come and go oldest first."""

    def __init__(self) -> None:
        self._chunks: dict[int, int] = {}  # the size of each chunk, by number
        self._stored_bytes = 0
        self._live_bytes = 0
        self._live: defaultdict[str, dict[str, tuple[int, int]]] = defaultdict(dict)  # version, bytes; by prefix, key

    def add(self, number: int, size: int, chunk: StoreChunk) -> None:
        """Take in the next chunk. The keys that it forgets are older than its own records."""
        self._chunks[number] = size
        self._stored_bytes += size
        for key in chunk.forgotten:
            near = self._live[prefix_of(key)]
            for each in list(near) if key.endswith("/") else near.keys() & {key}:
                if near[each][0] <= chunk.forgotten_up_to:
                    self._live_bytes -= near.pop(each)[1]
            if not near:
                del self._live[prefix_of(key)]
        for record in chunk.records:
            near = self._live[prefix_of(record.key)]
            version, old_size = near.get(record.key, (0, 0))
            if record.version > version:
                record_size = record.ByteSize()
                near[record.key] = record.version, record_size
                self._live_bytes += record_size - old_size

    def drop_before(self, number: int) -> None:
        """Drop chunks older than `number`. Their records that still count were added again."""
        while self._chunks and (oldest := next(iter(self._chunks))) < number:
            self._stored_bytes -= self._chunks.pop(oldest)

    def counting(self, records: Iterable[metadata_pb2.MetadataRecord]) -> list[metadata_pb2.MetadataRecord]:
        return [r for r in records if self._live.get(prefix_of(r.key), {}).get(r.key, (0, 0))[0] == r.version]

    def to_clean(self, at_once: int, slack: int) -> list[int]:
        """Return the oldest chunks, of at most `at_once` bytes but at least one, if more than half of what is stored,
        and `slack` bytes besides, count no more."""
        chosen: list[int] = []
        if self._stored_bytes <= 2 * self._live_bytes + slack:
            return chosen
        size = 0
        for number, chunk_size in self._chunks.items():
            size += chunk_size
            if chosen and (size > at_once or len(chosen) == CLEANED_AT_ONCE):
                break
            chosen.append(number)
        return chosen
