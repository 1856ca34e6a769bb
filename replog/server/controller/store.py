"""Where the controller's decisions become durable: current values by key, under one version, with compare-and-set."""

from collections.abc import Sequence
from typing import Protocol

from replog.rpc.v1 import metadata_pb2 as pb


class VersionConflictError(Exception):
    """The store is at another version than its caller believed: another controller has written to it."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(
            f"the metadata store is at version {actual}, not {expected}: another controller has written to it"
        )


class MetadataStore(Protocol):
    """A durable map of key to `MetadataRecord`; a record without a value is the key's tombstone.

    The store's version is that of its newest record, 0 when empty.
    """

    def load(self) -> list[pb.MetadataRecord]:
        """Every key's newest record, tombstones included, in version order."""

    def commit(self, expected_version: int, records: Sequence[pb.MetadataRecord], forgotten: Sequence[str] = ()) -> int:
        """Make `records`, numbered from `expected_version` + 1, durable, and drop the keys `forgotten`: all or none.

        One of these that ends in "/" stands for all keys that begin with it. Returns the new version.

        Raises VersionConflictError, with nothing written, when the store is at another version.
        Raises KAFKA_STORAGE_ERROR when they could not be written; the store's version is then unchanged.
        """

    def close(self) -> None:
        """Release the store; nothing is lost by not calling it."""
