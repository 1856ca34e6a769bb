"""The newest record of every key in version order: what a watcher that has seen version v still lacks."""

from collections.abc import Iterable
from itertools import islice, takewhile

from replog.rpc.v1 import metadata_pb2 as pb


class CurrentRecords:
    """A tombstone stays until a `collected` record says that nobody needs it any more."""

    def __init__(self) -> None:
        self.oldest = 0  # whoever has seen less than this version may have missed deletions that are forgotten
        self._by_key: dict[str, pb.MetadataRecord] = {}  # in version order: a changed key goes to the end
        self._tombstones: dict[str, int] = {}  # versions, in their order

    def put(self, records: Iterable[pb.MetadataRecord]) -> None:
        """`records` in version order, newer than all before."""
        for record in records:
            self._by_key.pop(record.key, None)
            self._by_key[record.key] = record
            self._tombstones.pop(record.key, None)
            if record.HasField("collected"):
                for key in self.tombstones(record.collected.version):
                    del self._by_key[key], self._tombstones[key]
                self.oldest = record.collected.version
            elif record.WhichOneof("value") is None:
                self._tombstones[record.key] = record.version

    def tombstones(self, up_to: int, limit: int | None = None) -> list[str]:
        """The keys of the oldest deletions up to that version."""
        return [key for key, _ in islice(takewhile(lambda item: item[1] <= up_to, self._tombstones.items()), limit)]

    def version_of(self, key: str) -> int:
        return self._by_key[key].version

    def after(self, version: int) -> list[pb.MetadataRecord]:
        """In version order; costs as many steps as there are records to return."""
        newer: list[pb.MetadataRecord] = []
        for record in reversed(self._by_key.values()):
            if record.version <= version:
                break
            newer.append(record)
        newer.reverse()
        return newer
