"""The newest record of every key in version order: what a watcher that has seen version v still lacks."""

from collections import defaultdict
from collections.abc import Iterable

from replog.rpc.v1 import metadata_pb2 as pb


class CurrentRecords:
    """Deletions are among them until they are forgotten."""

    def __init__(self) -> None:
        self._oldest = 0  # a watcher at an older version may have missed deletions that are forgotten
        self._records: dict[int, pb.MetadataRecord] = {}  # by version, in order
        self._versions: defaultdict[str, dict[str, int]] = defaultdict(dict)  # by what comes up to a key's last "/"

    def put(self, records: Iterable[pb.MetadataRecord]) -> None:
        """`records` in version order, newer than all before."""
        for record in records:
            key, version = record.key, record.version
            near = self._versions[_prefix(key)]
            if key in near:
                del self._records[near[key]]
            near[key], self._records[version] = version, record
            if record.HasField("collected"):
                self._oldest = record.collected.version

    def take_over(self, newer: "CurrentRecords", forgotten: Iterable[str] = ()) -> list[pb.MetadataRecord]:
        """All of `newer`, which came after all that is here, in a short step. Of the keys `forgotten` nothing is kept;
        one that ends in "/" stands for all that begin with it. Their records are returned: to free thousands at once
        would take longer than all else."""
        gone: list[pb.MetadataRecord] = []
        for key in forgotten:
            near = self._versions[_prefix(key)]
            keys = list(near) if key.endswith("/") else near.keys() & {key}
            gone += [self._records.pop(near.pop(each)) for each in keys]
        for prefix, versions in newer._versions.items():
            near = self._versions[prefix]
            for key in near.keys() & versions.keys():
                del self._records[near[key]]
            near |= versions
        self._records |= newer._records
        self._oldest = max(self._oldest, newer._oldest)
        return gone

    def since(self, version: int) -> tuple[list[pb.MetadataRecord], bool]:
        """What came after `version`, in version order; or all there is, and True, if deletions may be missing there."""
        is_all = 0 < version < self._oldest
        return self._after(0 if is_all else version), is_all

    def _after(self, version: int) -> list[pb.MetadataRecord]:
        """Costs as many steps as there are records to return."""
        newer: list[pb.MetadataRecord] = []
        for record in reversed(self._records.values()):
            if record.version <= version:
                break
            newer.append(record)
        newer.reverse()
        return newer


def _prefix(key: str) -> str:
    return key[: key.rfind("/") + 1]
