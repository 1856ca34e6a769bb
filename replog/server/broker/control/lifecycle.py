"""Registration, heartbeats and controlled shutdown, as calls to the controller (CT-1..CT-6, CT-13)."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice

import structlog

from replog.common.backoff import Backoff
from replog.errors import ErrorCode, ReplogError
from replog.log.directories.identity import CleanStop
from replog.metadata.image import MetadataImage
from replog.metadata.records import endpoint_messages
from replog.metadata.values import MISSING, NO_BROKER_EPOCH, NO_LEADER
from replog.release import Release
from replog.rpc import methods
from replog.rpc.limits import MAX_OFFLINE_PER_REQUEST
from replog.rpc.transport import Channel
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.context import BrokerContext
from replog.server.broker.control.newest_metadata import NewestMetadata
from replog.server.broker.identity import Identity
from replog.server.broker.replicas.hosted_replicas import HostedReplicas
from replog.server.logging import Trouble

log = structlog.get_logger()

CONTROLLED_SHUTDOWN_RETRY_MS = 50
CAUGHT_UP_RETRY_MS = 10
HEARTBEATS_A_SESSION = 3  # one may be lost, and one late
TAKEN_AFTER = 10  # refusals, half a second apart: a process that is gone would be found sooner (CT-21)
REFUSED_S = 0.5
MORE_LOG_ENDS_S = 0.1


class BrokerState(Enum):
    """The states of a broker (CT-2)."""

    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    PENDING_CONTROLLED_SHUTDOWN = "pending controlled shutdown"
    SHUTTING_DOWN = "shutting down"


@dataclass(slots=True)
class BrokerStanding:
    interval_ms: int
    state: BrokerState = BrokerState.STARTING
    fenced: bool = True

    @property
    def want_fence(self) -> bool:
        return self.state in (BrokerState.STARTING, BrokerState.RECOVERY)

    @property
    def want_shutdown(self) -> bool:
        """True if the broker asks to be relieved of its leaderships (CT-13)."""
        return self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN

    def on_answer(self, *, is_fenced: bool, is_caught_up: bool) -> int:
        """Take in the answer to a heartbeat. Return in how many milliseconds the next one is due (CT-3)."""
        self.fenced = is_fenced
        if self.want_shutdown:
            return CONTROLLED_SHUTDOWN_RETRY_MS
        if is_fenced and is_caught_up and self.state is BrokerState.RUNNING:
            return CAUGHT_UP_RETRY_MS  # the next answer unfences it
        return self.interval_ms


@dataclass(eq=False)
class BrokerLifecycle:
    """The registration of this process: it sends heartbeats, and learns when the broker may stop.

    A registration that is lost though this process did not give it up is taken back, with an error in the log (D40)."""

    _context: BrokerContext
    _channel: Channel
    _identity: Identity
    _known: NewestMetadata
    _backoff: Backoff
    _replicas: HostedReplicas
    session_timeout_ms: int = 0
    _request: pb.RegisterBrokerRequest = field(default_factory=pb.RegisterBrokerRequest)
    _trouble: Trouble = field(default_factory=Trouble)
    _is_lost: bool = False
    _refusals: int = 0  # how often in a row another process had the registration
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _may_stop: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.standing = BrokerStanding(self._context.config.broker_heartbeat_interval_ms)
        self._log_ends = LogEnds(self._context.image, self._replicas)

    async def register(
        self,
        cluster_id: str,
        address: str,
        endpoints: Mapping[str, str],
        previous: CleanStop,
        timeout_s: float,
        missing: Mapping[bytes, Sequence[int]],
    ) -> int:
        """Try to register this incarnation until it is accepted, and return the broker epoch. `missing` has, by topic
        id, partitions that are placed here and are not on the disks (CT-29).

        Waits for the end of an earlier incarnation's session (DUPLICATE_BROKER_REGISTRATION). Raises errors that are
        not retriable, and REQUEST_TIMED_OUT."""
        release = Release()
        self._request = pb.RegisterBrokerRequest(
            cluster_id=cluster_id,
            broker_id=self._identity.broker_id,
            incarnation_id=self._identity.incarnation_id,
            address=address,
            endpoints=endpoint_messages(endpoints.items()),
            rack=self._context.config.broker_rack,
            previous_broker_epoch=previous.broker_epoch,
            previous_incarnation_id=previous.incarnation_id,
            software_version=release.version,
            oldest_feature_level=release.oldest,
            newest_feature_level=release.newest,
            missing=[pb.MissingReplicas(topic_id=topic_id, partitions=of) for topic_id, of in missing.items()],
        )
        last: ReplogError | None = None
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    try:
                        return await self._register()
                    except ReplogError as error:
                        retriable = error.retriable or error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
                        if not retriable:
                            raise
                        self._trouble.log(log.warning, "registration not accepted yet", error)
                        last = error
                        await asyncio.sleep(min(self._backoff.next_s(), REFUSED_S))
        except TimeoutError:
            raise ErrorCode.REQUEST_TIMED_OUT.error(
                f"the controller at {self._channel.address} did not accept broker {self._context.config.node_id} "
                f"within {timeout_s:.3g} s: {last or 'no answer'}"
            ) from None

    async def _register(self) -> int:
        self._request.known.CopyFrom(self._known.message)
        response = await self._channel.call(methods.Controller["register_broker"], self._request, 5.0)
        self._backoff.reset()
        self._trouble.over()
        self._identity.broker_epoch = response.broker_epoch
        self.session_timeout_ms = response.session_timeout_ms
        if 0 < (most_ms := self.session_timeout_ms // HEARTBEATS_A_SESSION) < self.standing.interval_ms:
            log.warning(
                "heartbeats are sent more often than broker.heartbeat.interval.ms says: the session is short",
                interval_ms=most_ms,
                session_ms=self.session_timeout_ms,
            )
            self.standing.interval_ms = most_ms
        return self._identity.broker_epoch

    def become(self, state: BrokerState) -> None:
        """Move to the next state, and send the next heartbeat at once."""
        log.info("broker state", state=state.value)
        self.standing.state = state
        self._changed.set()

    async def run(self) -> None:
        """Send heartbeats until told to stop.

        Raises DUPLICATE_BROKER_REGISTRATION if another live process has the id; STALE_BROKER_EPOCH if this one wants to
        stop, and has lost its registration."""
        while not self._may_stop.is_set():
            self._changed.clear()  # not after the heartbeat: a change during it would wait for a whole interval
            delay_s = await (self._register_again() if self._is_lost else self._heartbeat())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._changed.wait()

    async def _heartbeat(self) -> float:
        """Send a heartbeat. Return how long to wait before the next."""
        log_ends, has_more = self._log_ends.next()
        request = pb.HeartbeatRequest(
            **self._identity.claim(),
            metadata_version=self._context.image.version,
            want_fence=self.standing.want_fence,
            want_shutdown=self.standing.want_shutdown,
            known=self._known.message,
            offline=[  # the next ones are sent when the controller has acted on these
                pb.OfflineReplica(topic=tp.topic, topic_id=topic_id, partition=tp.partition, is_gone=is_gone)
                for tp, topic_id, is_gone in islice(self._replicas.offline(), MAX_OFFLINE_PER_REQUEST)
            ],
            tells_log_ends=True,
            log_ends=log_ends,
        )
        interval_s = self.standing.interval_ms / 1000
        question_ms = self._context.time.clock.monotonic_ms()
        try:
            response = await self._channel.call(methods.Controller["heartbeat"], request, interval_s * 2)
        except ReplogError as error:
            if error.code is ErrorCode.STALE_BROKER_EPOCH:
                if self.standing.want_shutdown:
                    raise
                return self._lose(str(error))
            self._trouble.log(log.warning, "heartbeat failed", error)
            return min(self._backoff.next_s(), interval_s)
        self._backoff.reset()
        self._trouble.over()
        self._context.time.heard(question_ms, response.wall_ms)
        if response.is_fenced != self.standing.fenced:
            log.info("fenced" if response.is_fenced else "unfenced", broker_epoch=self._identity.broker_epoch)
        if response.should_shutdown and not request.want_shutdown:
            return self._lose("the controller tells it to stop, which it did not ask for")
        if response.should_shutdown:
            self._may_stop.set()
        delay_ms = self.standing.on_answer(is_fenced=response.is_fenced, is_caught_up=response.is_caught_up)
        return min(delay_ms / 1000, MORE_LOG_ENDS_S if has_more else interval_s)

    def _lose(self, why: str) -> float:
        log.error(
            "registration lost, and this broker did not give it up: registering again",
            broker=self._identity.broker_id,
            broker_epoch=self._identity.broker_epoch,
            reason=why,
            remedy="look for another process with this node.id, and in the audit log of the controller",
        )
        self._is_lost, self._refusals = True, 0
        self._request.previous_broker_epoch = NO_BROKER_EPOCH
        del self._request.missing[:]  # these replicas have been created since
        return 0.0

    async def _register_again(self) -> float:
        """Try once to register again. Return how long to wait before the next step."""
        try:
            await self._register()
        except ReplogError as error:
            is_taken = error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
            self._refusals = self._refusals + 1 if is_taken else 0
            if self._refusals == TAKEN_AFTER or self.standing.want_shutdown:
                raise
            self._trouble.log(log.warning, "registration not taken back yet", error)
            return REFUSED_S if is_taken else self._backoff.next_s()
        self._is_lost = False
        log.warning("registered again", broker=self._identity.broker_id, broker_epoch=self._identity.broker_epoch)
        return 0.0

    def report_soon(self) -> None:
        """Send the next heartbeat at once."""
        self._changed.set()

    async def say_goodbye(self, timeout_s: float) -> None:
        """Tell the controller that this broker fails: otherwise others would lead only when its session ends, if the
        controller cannot see by the lost connection that nobody listens there (CT-21)."""
        self._may_stop.set()  # otherwise another heartbeat could follow
        self._changed.set()
        version, known = self._context.image.version, self._known.message
        request = pb.HeartbeatRequest(
            **self._identity.claim(), metadata_version=version, known=known, want_fence=True, want_shutdown=True
        )
        with contextlib.suppress(ReplogError):  # the answer does not matter
            await self._channel.call(methods.Controller["heartbeat"], request, timeout_s)

    async def controlled_shutdown(self, timeout_s: float) -> bool:
        """Ask to be relieved of every leadership. Return True if the controller agreed within `timeout_s` (CT-13)."""
        self.become(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._may_stop.wait()
        return self._may_stop.is_set()


@dataclass(slots=True)
class LogEnds:
    """Reports all replicas without a leader, some in each heartbeat, round after round."""

    _image: MetadataImage
    _replicas: HostedReplicas
    _reported: int = 0  # replicas reported in this round

    def next(self) -> tuple[Sequence[pb.ReplicaLogEnd], bool]:
        """Return the reports for the next heartbeat, and True if this round has more."""
        leaderless = islice(self._image.index.led_by(NO_LEADER), self._reported, None)
        looked_at = list(islice(leaderless, MAX_OFFLINE_PER_REQUEST))
        has_more = next(leaderless, None) is not None
        self._reported = self._reported + len(looked_at) if has_more else 0
        reports = []
        for tp in looked_at:
            hosted, epoch = self._replicas.hosted.get(tp), self._image.partitions[tp].leader_epoch
            report = pb.ReplicaLogEnd(partition=tp.partition, leader_epoch=epoch)
            if (topic_id := self._replicas.offline_id(tp)) is not None:
                report.topic_id, report.is_offline = topic_id, True
            elif tp in self._replicas.missing:
                report.topic_id, report.last_epoch = self._image.topics[tp.topic].topic_id, MISSING
            elif hosted is None or hosted.follower is None or hosted.leader_epoch != epoch:
                continue  # its role is not up to date: it may still take records from a leader
            else:
                end, last_epoch = hosted.log.log_end_offset, hosted.log.epochs.latest_epoch
                report.topic_id, report.end_offset = hosted.topic_id, end
                report.last_epoch = -1 if last_epoch is None or end == 0 else last_epoch
            reports.append(report)
        return reports, has_more
