"""The newest record of every key in version order: what a watcher that has seen version v still lacks."""

from collections.abc import Iterable

from replog.rpc.v1 import metadata_pb2 as pb


class CurrentRecords:
    """Tombstones stay: a watcher that comes back late must still learn of a deletion."""

    def __init__(self) -> None:
        self._by_key: dict[str, pb.MetadataRecord] = {}  # in version order: a changed key goes to the end

    def put(self, records: Iterable[pb.MetadataRecord]) -> None:
        """`records` in version order, newer than all before."""
        for record in records:
            self._by_key.pop(record.key, None)
            self._by_key[record.key] = record

    def after(self, version: int) -> list[pb.MetadataRecord]:
        """In version order; costs as many steps as there are records to return."""
        newer: list[pb.MetadataRecord] = []
        for record in reversed(self._by_key.values()):
            if record.version <= version:
                break
            newer.append(record)
        newer.reverse()
        return newer
