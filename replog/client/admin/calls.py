"""An admin's calls: whom it asks, with a deadline, and again after retriable errors."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Self, TypeVar

from replog.client.arguments import Partition, check_settings, check_type, listed, partitions_of, whole, wholes
from replog.client.metadata import Metadata
from replog.common.backoff import Backoff
from replog.config.properties import MAX_INT
from replog.errors import ErrorCode, ReplogError
from replog.rpc.methods import Method
from replog.rpc.names import unless_unknown
from replog.rpc.tasks import may_fail_unheard
from replog.rpc.transport import Transport
from replog.rpc.transports import PathLike, client_transport
from replog.rpc.v1 import controller_pb2, log_pb2
from replog.topic import TopicPartition

T = TypeVar("T")

LOOKED_AFTER_S = 1.0  # how often a call without an answer looks whether another controller decides now


class Calls:
    """Every call has a deadline, `timeout_ms`, and repeats retriable errors until then."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        timeout_ms: int = 30_000,
        to_controller: bool = False,
        ssl_truststore_location: PathLike = None,
        ssl_keystore_location: PathLike = None,
        transport: Transport | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """With `to_controller`, `bootstrap` is the address of the controller that decides, for when no broker can be
        asked. Then calls do not wait until brokers know a change, and what only brokers know cannot be asked."""
        check_settings(1, MAX_INT, timeout_ms=timeout_ms)
        self._timeout_s = timeout_ms / 1000
        self._rng = rng or random.Random()
        self._backoff = Backoff(self._rng)
        self._metadata = Metadata(
            bootstrap, transport or client_transport(ssl_truststore_location, ssl_keystore_location), self._rng, "admin"
        )
        self._controller = self._metadata.bootstrap[0] if to_controller else ""
        self.life = self._metadata.life

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End every connection; calling it again does nothing."""
        self.life.close()
        await self.life.end(self._metadata.close)

    async def _ask_controller(self, method: Method, request: Any) -> Any:
        """Call the active controller at the address that brokers know, and look for it again when it has moved."""

        async def call() -> Any:
            return await self._call_controller(await self._known(), method, request)

        return await self._retry(call, not_retried=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def _known(self, topics: Iterable[str] | None = None) -> log_pb2.GetMetadataResponse:
        """Return the controller's address, and what brokers know of these topics, if they are asked."""
        if self._controller:
            return log_pb2.GetMetadataResponse(controller=self._controller)
        return await self._metadata.fetch(topics)

    async def _until_known(self, check: Callable[[], Awaitable[object]], not_retried: ErrorCode | None = None) -> None:
        """Wait until a broker knows of a change."""
        if not self._controller:
            await self._retry(check, not_retried)

    async def _change(
        self, change: Callable[[bool], Awaitable[T]], is_made: Callable[[ReplogError], Awaitable[bool]]
    ) -> T | None:
        """Return the answer of `change`, which is called with True after an answer was lost: the change may be made
        already. Return None if `is_made` recognises that by the error of a later try."""
        lost = False

        async def tried() -> T | None:
            nonlocal lost
            try:
                return await change(lost)
            except ReplogError as error:
                if lost and await is_made(error):
                    return None
                lost = lost or error.code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)
                raise

        return await self._retry(tried, not_retried=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def _call_controller(self, metadata: log_pb2.GetMetadataResponse, method: Method, request: Any) -> Any:
        if not metadata.controller:
            raise ErrorCode.NOT_CONTROLLER.error("the brokers know of no controller; is it running?")
        calling = may_fail_unheard(self._call("the controller", metadata.controller, method, request))
        try:
            while not calling.done():
                await asyncio.wait({calling}, timeout=LOOKED_AFTER_S)
                if not calling.done() and await self._has_moved(metadata.controller):
                    raise ErrorCode.NETWORK_EXCEPTION.error("another controller decides now")
            return calling.result()
        finally:
            calling.cancel()

    async def _has_moved(self, controller: str) -> bool:
        """Return True if a broker knows another controller, for example while that one is paused."""
        try:
            return bool((await self._metadata.fetch()).controller != controller)
        except ReplogError:
            return False

    async def _ask_broker(self, broker_id: int, method: Method, request: Any) -> Any:
        """Call this broker and no other. Raises BROKER_ID_NOT_REGISTERED."""
        whole("broker_id", broker_id)

        async def call() -> Any:
            brokers = {broker.broker_id: broker.address for broker in (await self._metadata.fetch()).brokers}
            if broker_id not in brokers:
                known = ", ".join(map(str, sorted(brokers)))
                raise ErrorCode.BROKER_ID_NOT_REGISTERED.error(f"there is no broker {broker_id}; there are {known}")
            return await self._call(f"broker {broker_id}", brokers[broker_id], method, request)

        return await self._retry(call)

    async def _call(self, who: str, address: str, method: Method, request: Any) -> Any:
        try:
            return await self._metadata.channel(address).call(method, request, self._timeout_s)
        except ReplogError as error:
            if error.code is not ErrorCode.NETWORK_EXCEPTION:
                raise
            asked = unless_unknown("is it running", [error])
            raise ReplogError(error.code, f"{who} does not answer{asked} ({error.message})") from None

    async def _retry(self, call: Callable[[], Awaitable[T]], not_retried: ErrorCode | None = None) -> T:
        """Repeat a call until the deadline, then raise the last error."""
        self.life.check()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        failures = 0
        last: ReplogError | None = None
        while True:
            try:
                async with asyncio.timeout_at(max(deadline, loop.time() + 0.1)):
                    return await call()
            except TimeoutError:
                raise last or ErrorCode.REQUEST_TIMED_OUT.error(f"no answer in {self._timeout_s:g} s") from None
            except ReplogError as error:
                last = error
                failures += 1
                delay_s = self._backoff.delay_s(failures)
                if not error.retriable or error.code is not_retried or loop.time() + delay_s >= deadline:
                    raise
                self._metadata.ask_another()
                await asyncio.sleep(delay_s)


def names_of(partitions: Iterable[Partition]) -> list[controller_pb2.PartitionName]:
    return [controller_pb2.PartitionName(topic=tp.topic, partition=tp.partition) for tp in partitions_of(partitions)]


def placed(assignment: Sequence[Sequence[int]], validate_only: bool) -> dict[str, Any]:
    """Make the fields of a request for partitions. Raises TypeError."""
    check_type(bool, "True or False", validate_only=validate_only)
    replicas = map(replicas_of, listed("assignment", assignment, "lists of broker ids"))
    return {"assignment": replicas, "validate_only": validate_only}


def replicas_of(broker_ids: Iterable[int]) -> controller_pb2.ReplicaAssignment:
    return controller_pb2.ReplicaAssignment(broker_ids=wholes("the broker ids", broker_ids))


def partition_of(result: Any) -> TopicPartition:
    return TopicPartition(result.topic, result.partition)


def error_of(result: Any) -> ReplogError | None:
    return ReplogError(ErrorCode(result.error_code), result.error_message) if result.error_code else None
