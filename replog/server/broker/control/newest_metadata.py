"""The newest metadata that this broker ever knew: durable before it acts by them (CT-24).

A controller whose store is an older copy would elect leaders without records acknowledged since. So each request to a
controller says what this broker knows, and a controller that knows less refuses it. A broker that takes up a role, or
counts by a smaller in-sync set, writes down first which metadata said so."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from replog.common.backoff import Backoff
from replog.errors import ReplogError
from replog.log.directories.identity import Position, read_position, write_position
from replog.log.errors import LogStorageError, RetriableLogError, is_of_the_disk
from replog.metadata.records import position_to_message
from replog.rpc.v1 import metadata_pb2 as pb
from replog.server.work import in_thread

log = structlog.get_logger()


class NewestMetadata:
    """The position of the newest metadata, in a small file in each of the broker's log directories."""

    def __init__(
        self, directories: Sequence[Path], backoff: Backoff, on_failure: Callable[[LogStorageError], None]
    ) -> None:
        """`on_failure` is called if some directories fail, not all.

        Raises INVALID_CONFIG if a file is damaged, LogStorageError if none can be read."""
        known = _read(directories)
        self.position = max(known, key=lambda position: position.version, default=Position())
        self._durable = min((position.version for position in known), default=0)
        self._directories = directories
        self._backoff = backoff
        self._writing = asyncio.Lock()
        self._on_failure = on_failure

    @property
    def message(self) -> pb.MetadataPosition:
        return position_to_message(self.position)

    async def note(self, position: Position) -> None:
        """Write the position, or a newer one, into every directory that works, and wait until one has it.

        Raises LogStorageError if all disks fail."""
        async with self._writing:
            reported: type[ReplogError] | None = None  # not its words: they say how many bytes are free
            while position.version > self._durable:
                try:
                    failures = await in_thread(lambda: self._write(position))
                except ReplogError as error:
                    if is_of_the_disk(error):
                        raise
                    if type(error) is not reported:
                        log.warning("the newest metadata cannot be noted, trying again", reason=error.message)
                    reported = type(error)
                    await asyncio.sleep(self._backoff.next_s())
                else:
                    self._backoff.reset()
                    self._durable, self.position = position.version, position
                    for failure in failures:
                        self._on_failure(failure)

    def _write(self, position: Position) -> list[LogStorageError]:
        """Write the position. Return the errors of directories that failed. Raises an error if all did."""
        failed: list[RetriableLogError | LogStorageError] = []
        for directory in self._directories:
            try:
                write_position(directory, position)
            except (RetriableLogError, LogStorageError) as error:
                failed.append(error)
        if len(failed) == len(self._directories):
            raise next((error for error in failed if not is_of_the_disk(error)), failed[0])
        return [error for error in failed if isinstance(error, LogStorageError)]


def _read(directories: Sequence[Path]) -> list[Position]:
    """Read each directory's position. A failed disk counts as empty: the broker may start without it (CT-27)."""
    known, failures = [], []
    for directory in directories:
        try:
            known.append(read_position(directory))
        except LogStorageError as error:
            failures.append(error)
    if failures and not known:  # otherwise the broker would follow a controller with an older copy (CT-24)
        raise failures[0]
    return [*known, *(Position() for _ in failures)]
