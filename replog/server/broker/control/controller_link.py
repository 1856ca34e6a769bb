"""The connection to that one of several controllers which decides."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from replog.errors import ErrorCode, ReplogError
from replog.rpc.methods import Method
from replog.rpc.tasks import may_fail_unheard
from replog.rpc.transport import Channel, Stream, Transport

AVOIDED_S = 5.0  # an address that did not answer, or has other metadata, is asked after the others for so long
_HAS_OTHERS = (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.INCONSISTENT_CLUSTER_ID)  # it has other metadata (CT-24)


class ControllerLink:
    """A `replog.rpc.transport.Channel` to all controllers. Calls go to the one that was last found to decide.

    A controller that does not decide is left for the one that it names, else for the next; one that has other metadata
    is left for the next. The refused call is made again there. Any other failure is raised; if there was no answer, the
    next call goes to another controller."""

    def __init__(self, transport: Transport, addresses: str) -> None:
        self._channels: dict[str, Channel] = {
            address: transport.connect(address) for address in dict.fromkeys(addresses.split(","))
        }
        self._avoided: dict[str, float] = {}  # addresses, and until when others are preferred
        self.address = next(iter(self._channels))
        self._left_it: asyncio.Future[Any] = asyncio.get_running_loop().create_future()  # done when `address` changes

    async def call(self, method: Method, request: Any, timeout_s: float) -> Any:
        deadline = asyncio.get_running_loop().time() + timeout_s
        refusal: ReplogError | None = None
        for _ in self._channels:
            address = self.address
            try:
                left_s = deadline - asyncio.get_running_loop().time()
                return await self._call(address, method, request, max(left_s, 0.001))
            except ReplogError as error:
                if not self._left_for_another(address, error):
                    raise
                if refusal is None or error.code is ErrorCode.NOT_CONTROLLER:  # retriable: it may decide soon
                    refusal = error
        assert refusal is not None, "there is an address"
        raise refusal

    async def _call(self, address: str, method: Method, request: Any, timeout_s: float) -> Any:
        """Call an address. Raises NETWORK_EXCEPTION when another one has become `address`."""
        left_it = self._left_it
        calling = may_fail_unheard(self._channels[address].call(method, request, timeout_s))
        try:
            await asyncio.wait({calling, left_it}, return_when=asyncio.FIRST_COMPLETED)
            if calling.done():
                return calling.result()
        finally:
            calling.cancel()
        raise ErrorCode.NETWORK_EXCEPTION.error(f"{address} did not answer before it was left for another")

    async def watch(self, method: Method, request: Any) -> AsyncIterator[Any]:
        address = self.address
        try:
            async for message in self._channels[address].watch(method, request):
                yield message
        except ReplogError as error:
            self._left_for_another(address, error)
            raise
        except asyncio.CancelledError:  # the reader gives up a stream that says nothing
            self._avoid(address)
            raise
        self._move_on(address, "")

    def open(self, method: Method) -> Stream:
        return self._channels[self.address].open(method)

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()

    def _avoid(self, address: str) -> None:
        """Have the next calls go to another address."""
        self._avoided[address] = asyncio.get_running_loop().time() + AVOIDED_S
        self._move_on(address, "")

    def _left_for_another(self, address: str, error: ReplogError) -> bool:
        """Leave an address for its error. Return True if the call was not carried out and may be made again at once."""
        if error.code is ErrorCode.NOT_CONTROLLER:
            self._move_on(address, error.instead)
        elif error.code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT, *_HAS_OTHERS):
            self._avoid(address)
        return error.code is ErrorCode.NOT_CONTROLLER or error.code in _HAS_OTHERS

    def _move_on(self, address: str, instead: str) -> None:
        if address != self.address:
            return  # another call has moved on already
        if instead not in self._channels:
            now, addresses = asyncio.get_running_loop().time(), list(self._channels)
            following = addresses.index(address) + 1
            others = [*addresses[following:], *addresses[:following]]  # `address` itself is the last
            instead = next((other for other in others if self._avoided.get(other, 0) <= now), others[0])
        if instead != address:
            self.address = instead
            self._left_it.set_result(None)
            self._left_it = asyncio.get_running_loop().create_future()
