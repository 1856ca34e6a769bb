"""Follows the controller's metadata: one stream, resumed from the last version applied, never polled (§0, §9)."""

import asyncio
from collections.abc import Callable

import structlog

from cluster.metadata_image import MetadataImage
from replog.backoff import Backoff
from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.transport import Channel
from replog.rpc.v1 import controller_pb2 as pb

log = structlog.get_logger()

SIGN_OF_LIFE_TIMEOUT_S = 5.0  # the controller sends at least one delta a second


class MetadataWatch:
    """Applies what changed to `image` and then calls `on_change` with it, in version order; `on_heard` whenever the
    image is all that the controller knows, at least once a second.

    Changes that come in several deltas are applied in one piece: in between, a partition may be without its topic, or
    with one of the same name that was deleted.
    """

    def __init__(
        self,
        channel: Channel,
        broker_id: int,
        incarnation_id: bytes,
        image: MetadataImage,
        on_change: Callable[[pb.MetadataDelta], None],
        backoff: Backoff,
        on_heard: Callable[[], None] = lambda: None,
    ) -> None:
        self._channel = channel
        self._broker_id = broker_id
        self._incarnation_id = incarnation_id
        self._image = image
        self._on_change = on_change
        self._on_heard = on_heard
        self._gathered = pb.MetadataDelta()  # what has come of changes that are not whole yet
        self._backoff = backoff
        self._moved = asyncio.Condition()
        self._first_latest: int | None = None  # the cluster's version when it was first heard of

    async def run(self) -> None:
        """Watch until cancelled; every failure of the wire is retried with a backoff."""
        while True:
            try:
                await self._follow()
                reason = "the controller ended the stream"
            except ReplogError as error:
                reason = str(error)
            log.info("metadata stream lost, resuming", controller=self._channel.address, reason=reason)
            await asyncio.sleep(self._backoff.next_s())

    async def _follow(self) -> None:
        request = pb.WatchMetadataRequest(
            after_version=max(self._image.version, self._gathered.version),
            broker_id=self._broker_id,
            incarnation_id=self._incarnation_id,
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
                    raise ReplogError(
                        ErrorCode.REQUEST_TIMED_OUT,
                        f"{self._channel.address} gave no sign of life for {SIGN_OF_LIFE_TIMEOUT_S:g} s",
                    ) from None
                self._backoff.reset()
                await self._apply(delta)
        finally:
            await deltas.aclose()  # type: ignore[attr-defined]

    async def _apply(self, delta: pb.MetadataDelta) -> None:
        self._gathered.MergeFrom(delta)
        if delta.version < delta.latest_version:
            return
        whole, self._gathered = self._gathered, pb.MetadataDelta()
        if whole.records:
            for record in whole.records:
                self._image.apply(record)
            self._on_change(whole)
        self._on_heard()
        async with self._moved:
            if self._first_latest is None:
                self._first_latest = delta.latest_version
            self._moved.notify_all()

    async def wait_for_version(self, version: int, timeout_s: float) -> None:
        """Until the image has reached `version`, and all that there was when the controller was first heard.

        Raises REQUEST_TIMED_OUT.
        """
        try:
            async with asyncio.timeout(timeout_s), self._moved:
                await self._moved.wait_for(lambda: self._has_reached(version))
        except TimeoutError:
            raise ReplogError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"no metadata up to version {version} from the controller at {self._channel.address} "
                f"within {timeout_s:g} s; is it running?",
            ) from None

    def _has_reached(self, version: int) -> bool:
        return self._first_latest is not None and self._image.version >= max(version, self._first_latest)
