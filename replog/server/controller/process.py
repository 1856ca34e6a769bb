"""The controller as a process: from its settings to a server that answers, until it is stopped."""

import asyncio
import random
import signal
from collections.abc import Callable

import structlog

from replog.config import ControllerConfig
from replog.rpc.grpcio.channel import GrpcTransport
from replog.rpc.grpcio.wake_ups import take_together
from replog.rpc.transports import transport_named
from replog.server.clock import SystemClock
from replog.server.controller.server import ControllerServer
from replog.server.controller.sqlite_store import SqliteStore
from replog.server.controller.store import VersionConflictError
from replog.server.descriptors import raise_limit
from replog.server.garbage import search_what_is_new
from replog.server.slow_steps import SlowSteps

log = structlog.get_logger()


def main(config: ControllerConfig) -> int:
    """Run until SIGTERM or SIGINT (0), or until another controller takes its store (1).

    Raises ReplogError when it cannot start.
    """
    raise_limit()
    SlowSteps().watch()
    search_what_is_new()
    try:
        asyncio.run(run_controller(config))
    except VersionConflictError as error:
        log.error("stopped", reason=str(error))
        return 1
    return 0


async def run_controller(config: ControllerConfig, on_listening: Callable[[str], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; `on_listening` is told the bound address.

    Raises ReplogError when it cannot start, NOT_CONTROLLER when it must not go on (another has taken over its store).
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    transport = transport_named(config.rpc_transport)
    if isinstance(transport, GrpcTransport):
        take_together()
    store = SqliteStore(config.metadata_log_dir)
    server = ControllerServer(config, store, transport, SystemClock(), random.SystemRandom())
    stopping = asyncio.create_task(stopped.wait())
    failing = asyncio.create_task(server.wait())
    try:
        await server.start()
        if on_listening is not None:
            on_listening(server.address)
        await asyncio.wait({failing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if failing.done():
            failing.result()
    finally:
        failing.cancel()
        stopping.cancel()
        await asyncio.gather(failing, stopping, return_exceptions=True)
        await server.stop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
