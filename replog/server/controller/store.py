"""Where the controller's decisions become durable: current values by key, under one version, with compare-and-set."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from replog.rpc.v1 import metadata_pb2 as pb

A = TypeVar("A")


class VersionConflictError(Exception):
    """The store is at another version than its caller believed: another controller has written to it."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(
            f"the metadata store is at version {actual}, not {expected}: another controller has written to it"
        )


class LeadershipLostError(Exception):
    """This controller leads no longer, or cannot know what its last commit did: it must decide nothing more."""


class MetadataStore(Protocol):
    """A durable map of key to `MetadataRecord`; a record without a value is the key's tombstone.

    The store's version is that of its newest record. One call at a time."""

    async def load(self) -> list[pb.MetadataRecord]:
        """Every key's newest record, tombstones included, in version order.

        Called again, where several controllers share the store, all records that were committed since then."""

    async def commit(
        self, expected_version: int, records: Sequence[pb.MetadataRecord], forgotten: Sequence[str] = ()
    ) -> int:
        """Make `records`, numbered from `expected_version` + 1, durable, and drop the keys `forgotten`: all or none.

        One of these that ends in "/" stands for all keys that begin with it. Returns the new version.

        Raises VersionConflictError, with nothing written, when the store is at another version.
        Raises KAFKA_STORAGE_ERROR when they could not be written; the store's version is then unchanged. Raises
        LeadershipLostError where only a new `load` can say whether they were."""

    async def close(self) -> None:
        """Release the store; nothing is lost by not calling it."""


class BlockingStore(Protocol):
    """A `MetadataStore` whose calls wait for a disk."""

    def load(self) -> list[pb.MetadataRecord]: ...

    def commit(
        self, expected_version: int, records: Sequence[pb.MetadataRecord], forgotten: Sequence[str] = ()
    ) -> int: ...

    def close(self) -> None: ...


class StoreInThread:
    """A thread of its own waits for the disk, so that heartbeats and signs of life do not."""

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
