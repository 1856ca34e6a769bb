"""Follows the controller's metadata by one stream, which is resumed from the last version that came (§0, §9)."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from replog.common.backoff import Backoff
from replog.errors import ErrorCode, ReplogError
from replog.log.directories.identity import Position
from replog.metadata.changes import key_of
from replog.metadata.image import MetadataImage
from replog.metadata.records import position_to_message
from replog.rpc import methods
from replog.rpc.transport import Channel
from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1.metadata_pb2 import MetadataRecord
from replog.server.broker.control.newest_metadata import NewestMetadata
from replog.server.broker.identity import Identity

log = structlog.get_logger()

SIGN_OF_LIFE_TIMEOUT_S = 5.0  # the controller sends at least one delta a second
NOTHING = Position()


@dataclass(eq=False)
class MetadataWatch:
    """Gives changes to `apply`, in version order, one after the other; that puts them into `image`. Its second argument
    is True if they are all metadata, so that deletions among them are guesses. Calls `on_heard` whenever the image is
    all that the controller knows, at least once a second.

    A change that comes in several deltas is applied in one piece: between them, a partition may have no topic, or a
    deleted one of the same name. Changes that come while an earlier one is being applied are also joined, with the
    newest record of each key, so they never exceed the metadata."""

    _channel: Channel
    _identity: Identity
    _image: MetadataImage
    _known: NewestMetadata
    _apply: Callable[[Sequence[MetadataRecord], bool], Awaitable[None]]
    _backoff: Backoff
    _on_heard: Callable[[], None] = lambda: None
    _lost: str = ""  # why the last stream ended; "" once another one has begun
    _refusal: str = ""  # why the controller's metadata are not a continuation of this broker's
    _heard: Position = NOTHING  # everything up to here has come; some of it may not be applied yet
    _gathered: dict[str, MetadataRecord] = field(default_factory=dict)  # records of a change that is not complete yet
    _whole: dict[str, MetadataRecord] = field(default_factory=dict)  # records of complete changes, to be applied
    _gathers_all: bool = False  # `_gathered` will be all metadata
    _is_all: bool = False  # `_whole` is all metadata
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _moved: asyncio.Condition = field(default_factory=asyncio.Condition)
    _first_latest: int | None = None  # the controller's version in its first answer

    @property
    def has_news(self) -> bool:
        """True if a change waits for an earlier one to be applied."""
        return bool(self._whole)

    async def run(self) -> None:
        """Watch until cancelled. A lost stream is opened again after a backoff."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            group.create_task(self._apply_whole())

    async def _listen(self) -> None:
        while True:
            try:
                await self._follow()
                reason = "the controller ended the stream"
            except ReplogError as error:
                reason = str(error)
                self._note_refusal(error)
            if reason != self._lost:
                log.warning("metadata stream lost, resuming", controller=self._channel.address, reason=reason)
            self._lost = reason
            await asyncio.sleep(self._backoff.next_s())

    def _note_refusal(self, error: ReplogError) -> None:
        """Log that this controller's metadata are refused. The next try may find one with the right ones."""
        if error.code in (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.INCONSISTENT_CLUSTER_ID):
            if self._refusal != error.message:
                log.error("nothing is taken from this controller", controller=self._channel.address, reason=str(error))
            self._refusal = error.message

    async def _follow(self) -> None:
        self._gathered.clear()  # the controller that answers now may have another history
        self._gathers_all = False
        newest = max(self._heard, self._known.position, key=lambda position: position.version)
        request = pb.WatchMetadataRequest(
            after_version=self._heard.version,
            broker_id=self._identity.broker_id,
            incarnation_id=self._identity.incarnation_id,
            known=position_to_message(newest),
        )
        deltas = self._channel.watch(methods.Controller["watch_metadata"], request)
        try:
            while True:
                try:
                    async with asyncio.timeout(SIGN_OF_LIFE_TIMEOUT_S):
                        delta = await anext(deltas)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    raise ErrorCode.REQUEST_TIMED_OUT.error(
                        f"{self._channel.address} gave no sign of life for {SIGN_OF_LIFE_TIMEOUT_S:g} s"
                    ) from None
                self._backoff.reset()
                self._lost = ""
                self._refusal = ""
                self._take(delta)
        finally:
            await deltas.aclose()  # type: ignore[attr-defined]

    def _take(self, delta: pb.MetadataDelta) -> None:
        if delta.reset:
            self._gathered.clear()
            self._gathers_all = True
        _merge(self._gathered, delta.records)
        if delta.version < delta.latest_version:
            return
        self._heard = self._heard_with(self._gathered, delta.version)
        if self._gathers_all:
            self._whole.clear()
            self._gathers_all, self._is_all = False, True
        _merge(self._whole, self._gathered.values())
        self._gathered.clear()
        if self._first_latest is None:
            self._first_latest = delta.latest_version
        self._news.set()

    def _heard_with(self, news: Mapping[str, MetadataRecord], version: int) -> Position:
        cluster_id, history_id, _ = self._heard
        if (cluster := news.get(key_of("cluster", None))) is not None:
            cluster_id = cluster.cluster.cluster_id
        if (lineage := news.get(key_of("lineage", None))) is not None and lineage.lineage.histories:
            history_id = lineage.lineage.histories[-1].history_id
        return Position(cluster_id, history_id, version)

    async def _apply_whole(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            records, self._whole = self._whole, {}
            is_all, self._is_all = self._is_all, False
            if is_all:
                records = self._with_deletions(records)
            if records:
                await self._apply(list(records.values()), is_all)
            if not self._whole:
                self._on_heard()
            async with self._moved:
                self._moved.notify_all()

    def _with_deletions(self, everything: dict[str, MetadataRecord]) -> dict[str, MetadataRecord]:
        """Add deletions of topics, brokers and ACLs that only the image has, each under a version of its own that no
        other record has."""
        taken = {record.version for record in everything.values()}
        free = (version for version in itertools.count(self._image.version + 1) if version not in taken)
        known = [key_of("topic", name) for name in self._image.topics]
        known += [key_of("broker", broker_id) for broker_id in self._image.brokers]
        known += [key_of("acl", acl_id) for acl_id in self._image.acls.by_id]
        gone = [key for key in known if key not in everything]
        records = [*everything.values(), *(MetadataRecord(key=key, version=next(free)) for key in gone)]
        return {record.key: record for record in sorted(records, key=lambda record: record.version)}

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until `holds`, which looks at the image, returns True."""
        async with self._moved:
            await self._moved.wait_for(holds)

    async def wait_for_version(self, version: int, timeout_s: float) -> None:
        """Wait until the image has reached `version`, and the version of the controller's first answer.

        Raises REQUEST_TIMED_OUT, but waits on as long as a controller is refused that is behind this broker."""

        def has_reached() -> bool:
            return self._first_latest is not None and self._image.version >= max(version, self._first_latest)

        while True:
            try:
                async with asyncio.timeout(timeout_s):
                    await self.wait_until(has_reached)
            except TimeoutError:
                if self._refusal:
                    continue
                raise ErrorCode.REQUEST_TIMED_OUT.error(
                    f"no metadata up to version {version} from the controller at {self._channel.address} "
                    f"within {timeout_s:g} s: {self._lost or 'no answer'}"
                ) from None
            return


def _merge(into: dict[str, MetadataRecord], records: Iterable[MetadataRecord]) -> None:
    """Merge newer records, in version order: the newest of each key stays."""
    for record in records:
        into.pop(record.key, None)
        into[record.key] = record
