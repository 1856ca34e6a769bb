"""The store of the controller's decisions: current values by key, under one version, with compare-and-set."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from replog.rpc.v1 import metadata_pb2 as pb

A = TypeVar("A")


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


class BlockingStore(Protocol):
    """A `MetadataStore` whose calls wait for a disk."""

    def load(self) -> list[pb.MetadataRecord]: ...

    def commit(
        self, expected_version: int, records: Sequence[pb.MetadataRecord], forgotten: Sequence[str] = ()
    ) -> int: ...

    def close(self) -> None: ...


class StoreInThread:
    """Calls a store in a thread of its own, otherwise heartbeats would wait for the disk."""

    def __init__(self, store: BlockingStore) -> None:
        self.blocking = store
        self._executor = ThreadPoolExecutor(1, "metadata-store")

    async def load(self) -> list[pb.MetadataRecord]:
        return await self._call(self.blocking.load)

    async def commit(
        self, expected_version: int, records: Sequence[pb.MetadataRecord], forgotten: Sequence[str] = ()
    ) -> int:
        return await self._call(self.blocking.commit, expected_version, records, forgotten)

    async def close(self) -> None:
        await self._call(self.blocking.close)
        self._executor.shutdown()

    async def _call(self, call: Callable[..., A], *arguments: object) -> A:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call, *arguments)
