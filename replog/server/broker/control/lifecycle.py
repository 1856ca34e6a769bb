"""Registration, heartbeats and controlled shutdown, as calls to the controller (CT-1..CT-6, CT-13)."""

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from replog.backoff import Backoff
from replog.config import BrokerConfig
from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.transport import Channel
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.control.broker_standing import BrokerStanding, BrokerState

log = structlog.get_logger()


class BrokerLifecycle:
    """One registration: its epoch, its heartbeats, and when the broker may stop."""

    def __init__(
        self,
        config: BrokerConfig,
        channel: Channel,
        incarnation_id: bytes,
        metadata_version: Callable[[], int],
        backoff: Backoff,
    ) -> None:
        self._config = config
        self._channel = channel
        self._incarnation_id = incarnation_id
        self._metadata_version = metadata_version
        self._backoff = backoff
        self.standing = BrokerStanding(config.broker_heartbeat_interval_ms)
        self.broker_epoch = -1
        self.session_timeout_ms = 0
        self._changed = asyncio.Event()
        self._may_stop = asyncio.Event()

    async def register(self, cluster_id: str, address: str, previous_broker_epoch: int) -> int:
        """Register this incarnation, again and again until accepted; returns the broker epoch.

        A live session of an earlier incarnation (DUPLICATE_BROKER_REGISTRATION) is waited out. Raises what the
        controller refuses for good, or REQUEST_TIMED_OUT after `initial.broker.registration.timeout.ms`.
        """
        request = pb.RegisterBrokerRequest(
            cluster_id=cluster_id,
            broker_id=self._config.node_id,
            incarnation_id=self._incarnation_id,
            address=address,
            rack=self._config.broker_rack,
            previous_broker_epoch=previous_broker_epoch,
        )
        timeout_s = self._config.initial_broker_registration_timeout_ms / 1000
        last: ReplogError | None = None
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    try:
                        response = await self._channel.call(methods.Controller["register_broker"], request, 5.0)
                    except ReplogError as error:
                        last = error
                        retriable = error.retriable or error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
                        if not retriable:
                            raise
                        log.info("registration not accepted yet", reason=str(error))
                        await asyncio.sleep(min(self._backoff.next_s(), 0.5))
                    else:
                        self._backoff.reset()
                        self.broker_epoch = response.broker_epoch
                        self.session_timeout_ms = response.session_timeout_ms
                        return self.broker_epoch
        except TimeoutError:
            raise ReplogError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"the controller at {self._channel.address} did not accept broker {self._config.node_id} "
                f"within {timeout_s:g} s: {last or 'no answer'}",
            ) from None

    def become(self, state: BrokerState) -> None:
        """Move to the next state; the next heartbeat goes out at once."""
        log.info("broker state", state=state.value)
        self.standing.state = state
        self._changed.set()

    async def run(self) -> None:
        """Heartbeat until told to stop. Raises STALE_BROKER_EPOCH when another incarnation has taken over."""
        while not self._may_stop.is_set():
            self._changed.clear()  # a change during the heartbeat calls for the next one at once
            delay_s = await self._heartbeat()
            try:
                async with asyncio.timeout(delay_s):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _heartbeat(self) -> float:
        """One heartbeat; returns how long to wait before the next."""
        request = self._request(want_fence=self.standing.want_fence, want_shutdown=self.standing.want_shutdown)
        interval_s = self._config.broker_heartbeat_interval_ms / 1000
        try:
            response = await self._channel.call(methods.Controller["heartbeat"], request, interval_s * 2)
        except ReplogError as error:
            if error.code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
                raise
            log.warning("heartbeat failed", reason=str(error))
            return min(self._backoff.next_s(), interval_s)
        self._backoff.reset()
        if response.is_fenced != self.standing.fenced:
            log.info("fenced" if response.is_fenced else "unfenced", broker_epoch=self.broker_epoch)
        if response.should_shutdown:
            self._may_stop.set()
        return self.standing.on_answer(is_fenced=response.is_fenced, is_caught_up=response.is_caught_up) / 1000

    def _request(self, *, want_fence: bool, want_shutdown: bool) -> pb.HeartbeatRequest:
        return pb.HeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.broker_epoch,
            metadata_version=self._metadata_version(),
            want_fence=want_fence,
            want_shutdown=want_shutdown,
        )

    async def say_goodbye(self, timeout_s: float) -> None:
        """This broker fails and stops: others lead from now on, not when its session ends, and it may register again.

        Whether that was heard does not matter; the connections that it loses say it too (CT-21).
        """
        request = self._request(want_fence=True, want_shutdown=True)
        self._may_stop.set()  # and no other heartbeat after it
        self._changed.set()
        with contextlib.suppress(ReplogError):
            await self._channel.call(methods.Controller["heartbeat"], request, timeout_s)

    async def controlled_shutdown(self, timeout_s: float) -> bool:
        """Ask to be relieved of every leadership; whether the controller agreed within `timeout_s` (CT-13)."""
        self.become(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
        try:
            async with asyncio.timeout(timeout_s):
                await self._may_stop.wait()
        except TimeoutError:
            return False
        return True
