"""The watchers of the metadata: each gets what it lacks, and those that stop listening are reported."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator

from replog.controller.cluster_state import ClusterState
from replog.errors import ErrorCode
from replog.metadata.incarnation import INCARNATION_ID_SIZE, is_same
from replog.metadata.values import BrokerRegistration
from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1 import metadata_pb2
from replog.server.controller.current_records import CurrentRecords

SIGN_OF_LIFE_S = 1.0
MAX_WATCHERS = 1000  # besides registered brokers, of which there may be as many
DELTA_RECORDS = 500  # records of a message
DELTA_BYTES = 1 << 20  # approximate size of a message


class Watchers:
    """Sends metadata to watchers. Nothing is queued for a slow one: what it has not seen is found by version."""

    def __init__(
        self,
        state: ClusterState,
        records: CurrentRecords,
        on_lost: Callable[[BrokerRegistration], None],
        leads: Callable[[], bool],
    ) -> None:
        """`on_lost` is called for each registered broker whose only stream has ended. Streams end when this controller
        no longer `leads`."""
        self.open = False
        self._state = state
        self._records = records
        self._on_lost = on_lost
        self._leads = leads
        self._changed = asyncio.Event()
        self._others = 0
        self._newest: dict[object, object] = {}  # the newest stream of each watcher

    def wake(self) -> None:
        """Wake all watchers: there is something new, or they must end."""
        self._changed.set()
        self._changed = asyncio.Event()

    def listens(self, broker: BrokerRegistration) -> bool:
        return broker.incarnation_id in self._newest

    async def watch(self, request: pb.WatchMetadataRequest) -> AsyncGenerator[pb.MetadataDelta, None]:
        """Yields the newest change of each key after a version, in version order, then live changes.

        A watcher that may miss deletions that are forgotten gets everything, with `reset`. It ends when the controller
        stops, and when its broker opens another. A second without news brings a delta without records. Raises
        INVALID_REQUEST, NOT_CONTROLLER, BROKER_NOT_AVAILABLE."""
        after = request.after_version
        if after < 0:
            raise ErrorCode.INVALID_REQUEST.error(f"after_version {after} < 0; 0 is the beginning")
        if request.incarnation_id and len(request.incarnation_id) != INCARNATION_ID_SIZE:
            raise ErrorCode.INVALID_REQUEST.error(
                f"an incarnation id of {len(request.incarnation_id)} bytes; it has {INCARNATION_ID_SIZE}, or none"
            )
        self._state.check_version_known(after)
        is_other = self._broker(request) is None
        if is_other and self._others >= MAX_WATCHERS:
            raise ErrorCode.BROKER_NOT_AVAILABLE.error(f"{MAX_WATCHERS} watch already, and that is the most; try again")
        token = object()
        who = request.incarnation_id or token
        self._newest[who] = token
        self._others += is_other
        try:
            sent = after
            while self.open and self._newest.get(who) is token:
                changed = self._changed
                newer, is_reset = self._records.since(sent)
                latest = self._state.image.version
                for records in _in_deltas(newer):
                    sent = records[-1].version
                    yield pb.MetadataDelta(version=sent, records=records, latest_version=latest, reset=is_reset)
                    is_reset = False
                if newer:
                    continue
                try:
                    async with asyncio.timeout(SIGN_OF_LIFE_S):
                        await changed.wait()
                except TimeoutError:
                    if not self._leads():
                        break
                    yield pb.MetadataDelta(version=sent, latest_version=sent)
        finally:
            self._others -= is_other
            if self._newest.get(who) is token:
                del self._newest[who]
                if self.open and (broker := self._broker(request)) is not None:
                    self._on_lost(broker)

    def _broker(self, request: pb.WatchMetadataRequest) -> BrokerRegistration | None:
        """Return the registered broker whose process asks, or None."""
        broker = self._state.image.broker(request.broker_id)
        is_it = broker is not None and is_same(broker.incarnation_id, request.incarnation_id)
        return broker if is_it else None


def _in_deltas(records: list[metadata_pb2.MetadataRecord]) -> Iterator[list[metadata_pb2.MetadataRecord]]:
    """Yields `records` in pieces that each fit a message."""
    piece: list[metadata_pb2.MetadataRecord] = []
    size = 0
    for record in records:
        record_size = record.ByteSize()
        if piece and (len(piece) == DELTA_RECORDS or size + record_size > DELTA_BYTES):
            yield piece
            piece, size = [], 0
        piece.append(record)
        size += record_size
    if piece:
        yield piece
