"""The newest record of every key in version order: what a watcher that has seen version v still lacks."""

from collections.abc import Iterable

from replog.rpc.v1 import metadata_pb2 as pb


class CurrentRecords:
    """Deletions are among them until they are forgotten."""

    def __init__(self) -> None:
        self._oldest = 0  # a watcher at an older version may have missed deletions that are forgotten
        self._by_key: dict[str, pb.MetadataRecord] = {}  # in version order: a changed key goes to the end

    def put(self, records: Iterable[pb.MetadataRecord], forgotten: Iterable[str] = ()) -> None:
        """`records` in version order, newer than all before; the keys `forgotten` are kept no longer."""
        for key in forgotten:
            del self._by_key[key]
        for record in records:
            self._by_key.pop(record.key, None)
            self._by_key[record.key] = record
            if record.HasField("collected"):
                self._oldest = record.collected.version

    def since(self, version: int) -> tuple[list[pb.MetadataRecord], bool]:
        """What came after `version`, in version order; or all there is, and True, if deletions may be missing there."""
        is_all = 0 < version < self._oldest
        return self._after(0 if is_all else version), is_all

    def _after(self, version: int) -> list[pb.MetadataRecord]:
        """Costs as many steps as there are records to return."""
        newer: list[pb.MetadataRecord] = []
        for record in reversed(self._by_key.values()):
            if record.version <= version:
                break
            newer.append(record)
        newer.reverse()
        return newer
