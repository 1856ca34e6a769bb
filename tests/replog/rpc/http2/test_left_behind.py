"""What ends leaves nothing behind that waits for the garbage collector: in a process with many objects a whole
collection comes late, and every channel holds a quarter of a MiB to read into."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from replog.rpc import methods
from replog.rpc.transports import H2Transport
from tests.replog.rpc.handlers import Handlers, ask, error_of, produce_request, serving, until


@pytest.fixture(autouse=True)
def _nobody_collects() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


async def _gone(*left: "weakref.ref[object]") -> None:
    """Within some turns of the loop: what is scheduled refers to them."""
    await until(lambda: all(each() is None for each in left))


async def test_what_a_closed_channel_read_into_is_gone_at_once_whatever_errors_are_kept():
    handlers, errors = Handlers(), []
    async with serving(handlers, methods.LOG) as address:
        channel = H2Transport().connect(address)
        assert await ask(channel, "a") == ["a"]
        handlers.delay_s = 600.0
        errors.append(await error_of(ask(channel, "b", timeout_s=0.05)))
        stream = channel.open(methods.Log["produce"])
        await stream.send(produce_request(1))
        errors.append(await error_of(stream.receive(0.05)))
        left = weakref.ref(channel._connection._reads)
        await channel.close()
        await _gone(left)
        assert len(errors) == 2


async def test_a_closed_connection_is_gone_at_once():
    async with serving(Handlers(), methods.LOG) as address:
        channel = H2Transport().connect(address)
        assert await ask(channel, "a") == ["a"]
        left = [weakref.ref(channel), weakref.ref(channel._connection)]
        await channel.close()
        del channel
        await _gone(*left)
