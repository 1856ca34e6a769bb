"""The store of the controller's decisions: current values by key, under one version, with compare-and-set."""

from collections.abc import Sequence
from typing import Protocol

from replog.rpc.v1 import metadata_pb2 as pb


class VersionConflictError(Exception):
    """The store is at another version than expected: another controller has written to it."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(
            f"the metadata store is at version {actual}, not {expected}: another controller has written to it"
        )


class LeadershipLostError(Exception):
    """This controller leads no longer, or cannot know what its last commit did: it must decide nothing more."""


class MetadataStore(Protocol):
    """A durable map of key to `MetadataRecord`; a record without a value is the key's tombstone.

    The store's version is that of its newest record. It takes one call at a time."""

    async def load(self) -> list[pb.MetadataRecord]:
        """Return every key's newest record, tombstones included, in version order.

        If several controllers share the store, a later call returns the records committed since the last one."""

    async def commit(
        self, expected_version: int, records: Sequence[pb.MetadataRecord], forgotten: Sequence[str] = ()
    ) -> int:
        """Make `records`, numbered from `expected_version` + 1, durable, and drop the keys `forgotten`: all or none.

        One of these that ends in "/" stands for all keys that begin with it. Returns the new version.

        Raises VersionConflictError, with nothing written, if the store is at another version; KAFKA_STORAGE_ERROR, with
        nothing written; LeadershipLostError if only a new `load` can say whether they were written."""

    async def close(self) -> None:
        """Release the store. Nothing is lost without it."""
