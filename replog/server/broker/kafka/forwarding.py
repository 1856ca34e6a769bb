"""Admin requests of Kafka's clients, which a broker passes on to the controller. The client's ACLs are checked by its
broker, before: the controller believes that broker's certificate (`Access.forwarded`)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

from google.protobuf.message import Message

from replog.common.backoff import Backoff
from replog.errors import ErrorCode, ReplogError, codes
from replog.rpc.methods import Controller, Log
from replog.rpc.v1 import log_pb2
from replog.server.broker.kafka.service import KafkaService

S = TypeVar("S")
T = TypeVar("T")

KNOWN_S = 5.0  # a broker that does not have new metadata for so long is not waited for
AT_ONCE = 10  # requests to the controller, for one of a client
LOOK_S = 0.02  # how often a broker is asked which metadata it has
_AGAIN = codes("NOT_CONTROLLER NETWORK_EXCEPTION STALE_CONTROLLER_EPOCH THROTTLING_QUOTA_EXCEEDED")


def deadline(service: KafkaService, timeout_ms: int) -> float:
    """Return the loop's time at which a request with this timeout is over: no broker works on one for longer than
    request.timeout.ms. No timeout is that one: librdkafka relies on its request being carried out then, too."""
    most_ms = service.context.config.request_timeout_ms
    bounded_ms = min(timeout_ms, most_ms) if timeout_ms > 0 else most_ms
    return float(asyncio.get_running_loop().time() + bounded_ms / 1000)


async def ask_controller(service: KafkaService, method: str, request: Message, until_s: float) -> Any:
    """Return the controller's answer to one of its methods, by the handler's name. While no controller answers it is
    asked again: like Kafka's brokers, so that a repeated request may find its own work done.

    Raises the controller's error, REQUEST_TIMED_OUT if there is no time, or at `until_s` the last error."""
    loop, backoff = asyncio.get_running_loop(), Backoff(Random(service.context.config.node_id), base_ms=50)
    if until_s <= loop.time():
        raise ErrorCode.REQUEST_TIMED_OUT.error("the request's timeout left no time for it; give more seconds")
    while True:
        try:
            return await service.controller.call(Controller[method], request, until_s - loop.time())
        except ReplogError as error:
            pause_s = backoff.next_s()
            if error.code not in _AGAIN or loop.time() + pause_s >= until_s:
                raise
        await asyncio.sleep(pause_s)


async def until_all_know(service: KafkaService, version: int, until_s: float) -> None:
    """Wait until every live broker has the metadata of `version`: a client may ask any of them next. No longer than
    until `until_s`, or `KNOWN_S`: then the change is made all the same. Version 0: nothing was changed."""
    if not version:
        return
    context = service.context
    with suppress(TimeoutError):
        async with asyncio.timeout_at(min(until_s, asyncio.get_running_loop().time() + KNOWN_S)):
            await service.until(lambda: context.image.version >= version)
            others = [broker for broker in context.image.brokers.values() if broker.active]
            await asyncio.gather(
                *(_knows(service, each.address, version) for each in others if each.broker_id != context.config.node_id)
            )


async def _knows(service: KafkaService, address: str, version: int) -> None:
    """Wait until the broker there has the metadata of `version`, or does not answer."""
    channel = service.transport.connect(address)
    request = log_pb2.GetMetadataRequest(without_topics=True)
    try:
        while (await channel.call(Log["get_metadata"], request, KNOWN_S)).metadata_version < version:
            await asyncio.sleep(LOOK_S)
    except ReplogError:
        pass  # it is stopping, or dead and not yet known to be
    finally:
        await channel.close()


async def in_lots(things: Sequence[S], do: Callable[[S], Awaitable[T]]) -> list[T]:
    """Return what `do` makes of each; some at once, as each is a request to the controller."""
    results: list[T] = []
    for first in range(0, len(things), AT_ONCE):
        results += await asyncio.gather(*map(do, things[first : first + AT_ONCE]))
    return results
