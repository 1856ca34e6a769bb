"""The controller as a process: from its settings to a server that answers, until it is told to stop."""

import asyncio
import random
import signal
from collections.abc import Callable

import structlog

from cluster.clock import SystemClock
from cluster.controller.controller import Controller
from cluster.controller.service import ControllerService
from cluster.controller.sqlite_store import SqliteStore
from cluster.controller.store import VersionConflictError
from replog.config import ControllerConfig
from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.server import Server

log = structlog.get_logger()

STOP_GRACE_S = 2.0


def main(config: ControllerConfig) -> int:
    """Run until SIGTERM or SIGINT (0), or until another controller takes its store (1).

    Raises ReplogError when it cannot start.
    """
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
    store = SqliteStore(config.metadata_log_dir)
    controller = Controller(config, store, SystemClock(), random.SystemRandom())
    server = Server(config.listeners)
    server.add(methods.CONTROLLER, ControllerService(controller))
    try:
        await controller.start()
        address = await server.start()
        await server.set_serving(True)
        log.info("controller listening", address=address)
        if on_listening is not None:
            on_listening(address)
        controller.failure.add_done_callback(lambda _: stopped.set())
        await stopped.wait()
    finally:
        await controller.stop()
        await server.stop(STOP_GRACE_S)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    if controller.failure.done():
        error = controller.failure.result()
        raise ReplogError(ErrorCode.NOT_CONTROLLER, f"the controller stopped: {error}") from error
