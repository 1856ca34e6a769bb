"""The watchers of the metadata: what each still lacks, and which have stopped listening."""

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
MAX_WATCHERS = 1000  # besides registered brokers, for which there is as much room again
DELTA_RECORDS = 500  # of one message, and
DELTA_BYTES = 1 << 20  # about so many bytes


class Watchers:
    """Nothing is queued for a slow watcher: what it has not seen is found by version when it comes back for more."""

    def __init__(
        self,
        state: ClusterState,
        records: CurrentRecords,
        on_lost: Callable[[BrokerRegistration], None],
        leads: Callable[[], bool],
    ) -> None:
        """`on_lost` hears of each broker that is registered and whose only stream has ended. Nobody is told anything
        when this controller no longer `leads`."""
        self.open = False
        self._state = state
        self._records = records
        self._on_lost = on_lost
        self._leads = leads
        self._changed = asyncio.Event()
        self._others = 0
        self._newest: dict[object, object] = {}  # the stream of each; of a broker process the newest

    def wake(self) -> None:
        """There is something new, or this is the end."""
        self._changed.set()
        self._changed = asyncio.Event()

    def listens(self, broker: BrokerRegistration) -> bool:
        return broker.incarnation_id in self._newest

    async def watch(self, request: pb.WatchMetadataRequest) -> AsyncGenerator[pb.MetadataDelta, None]:
        """Every change after a version in version order, only the newest of each key, then live.

        Who has seen so little that it may miss deletions which are forgotten is given everything, and told so.
        Ends when the controller stops, and when its broker opens another. A delta without records comes each second
        that brings no other. Raises INVALID_REQUEST, NOT_CONTROLLER, BROKER_NOT_AVAILABLE."""
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
        """Which registered process asks."""
        broker = self._state.image.broker(request.broker_id)
        is_it = broker is not None and is_same(broker.incarnation_id, request.incarnation_id)
        return broker if is_it else None


def _in_deltas(records: list[metadata_pb2.MetadataRecord]) -> Iterator[list[metadata_pb2.MetadataRecord]]:
    """`records` in pieces that each fit a message."""
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
