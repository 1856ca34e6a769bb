"""The watchers of the metadata: each gets what it lacks, and those that stop listening are reported."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from replog.controller.cluster_state import ClusterState
from replog.errors import ErrorCode
from replog.metadata.values import INCARNATION_ID_SIZE, BrokerRegistration, is_same
from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1.metadata_pb2 import MetadataRecord

SIGN_OF_LIFE_S = 1.0
MAX_WATCHERS = 1000  # besides registered brokers, of which there may be as many
DELTA_RECORDS = 500  # records of a message
DELTA_BYTES = 1 << 20  # approximate size of a message


class CurrentRecords:
    """The newest record of every key in version order, for watchers that have seen a version and miss the
    rest. Deletions are among them until they are forgotten."""

    def __init__(self) -> None:
        self._oldest = 0  # a watcher at an older version may have missed deletions that are forgotten
        self._records: dict[int, MetadataRecord] = {}  # keys are versions, in order
        self._versions: defaultdict[str, dict[str, int]] = defaultdict(dict)  # grouped by the keys' prefix up to "/"

    def put(self, records: Iterable[MetadataRecord]) -> None:
        """Take in records in version order, newer than all before."""
        for record in records:
            key, version = record.key, record.version
            near = self._versions[prefix_of(key)]
            if key in near:
                del self._records[near[key]]
            near[key], self._records[version] = version, record
            if record.HasField("collected"):
                self._oldest = record.collected.version

    def take_over(self, newer: "CurrentRecords", forgotten: Iterable[str] = ()) -> list[MetadataRecord]:
        """Take in all of `newer`, which came later, in a short step. Drop the keys `forgotten`; one that ends in "/"
        stands for all that begin with it. Return their records: to free thousands here would take longer than the
        rest."""
        gone: list[MetadataRecord] = []
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

    def since(self, version: int) -> tuple[list[MetadataRecord], bool]:
        """Return records after `version`, in version order; or all, and True, if the watcher may miss deletions."""
        is_all = 0 < version < self._oldest
        after = 0 if is_all else version
        newer = list(takewhile(lambda record: record.version > after, reversed(self._records.values())))
        return newer[::-1], is_all


def prefix_of(key: str) -> str:
    return key[: key.rfind("/") + 1]


@dataclass(eq=False)
class Watchers:
    """Sends metadata to watchers. Nothing is queued for a slow one: what it has not seen is found by version."""

    _state: ClusterState
    _records: CurrentRecords
    _on_lost: Callable[[BrokerRegistration], None]  # called for each registered broker whose only stream has ended
    _leads: Callable[[], bool]  # streams end when this controller leads no longer
    open: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _others: int = 0
    _newest: dict[object, object] = field(default_factory=dict)  # the newest stream of each watcher

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


def _in_deltas(records: list[MetadataRecord]) -> Iterator[list[MetadataRecord]]:
    """Yields `records` in pieces that each fit a message."""
    piece: list[MetadataRecord] = []
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
