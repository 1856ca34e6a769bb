"""The newest record of every key in version order, for watchers that have seen a version and lack the rest."""

from collections import defaultdict
from collections.abc import Iterable

from replog.rpc.v1 import metadata_pb2 as pb


class CurrentRecords:
    """The newest record of every key. Deletions are among them until they are forgotten."""

    def __init__(self) -> None:
        self._oldest = 0  # a watcher at an older version may have missed deletions that are forgotten
        self._records: dict[int, pb.MetadataRecord] = {}  # keys are versions, in order
        self._versions: defaultdict[str, dict[str, int]] = defaultdict(dict)  # grouped by the keys' prefix up to "/"

    def put(self, records: Iterable[pb.MetadataRecord]) -> None:
        """Take in records in version order, newer than all before."""
        for record in records:
            key, version = record.key, record.version
            near = self._versions[prefix_of(key)]
            if key in near:
                del self._records[near[key]]
            near[key], self._records[version] = version, record
            if record.HasField("collected"):
                self._oldest = record.collected.version

    def take_over(self, newer: "CurrentRecords", forgotten: Iterable[str] = ()) -> list[pb.MetadataRecord]:
        """Take in all of `newer`, which came later, in a short step. Drop the keys `forgotten`; one that ends in "/"
        stands for all that begin with it. Return their records: to free thousands here would take longer than the
        rest."""
        gone: list[pb.MetadataRecord] = []
        for key in forgotten:
            near = self._versions[prefix_of(key)]
            keys = list(near) if key.endswith("/") else near.keys() & {key}
            gone += [self._records.pop(near.pop(each)) for each in keys]
            if not near:
                del self._versions[prefix_of(key)]
        for prefix, versions in newer._versions.items():
            near = self._versions[prefix]
            for key in near.keys() & versions.keys():
                del self._records[near[key]]
            near |= versions
        self._records |= newer._records
        self._oldest = max(self._oldest, newer._oldest)
        return gone

    def since(self, version: int) -> tuple[list[pb.MetadataRecord], bool]:
        """Return records after `version`, in version order; or all, and True, if the watcher may miss deletions."""
        is_all = 0 < version < self._oldest
        return self._after(0 if is_all else version), is_all

    def _after(self, version: int) -> list[pb.MetadataRecord]:
        """Return records after `version`, in as many steps as there are such."""
        newer: list[pb.MetadataRecord] = []
        for record in reversed(self._records.values()):
            if record.version <= version:
                break
            newer.append(record)
        newer.reverse()
        return newer


def prefix_of(key: str) -> str:
    return key[: key.rfind("/") + 1]
