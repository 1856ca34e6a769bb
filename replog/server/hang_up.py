"""SIGHUP: a process reads its settings again, uses those of its log, and looks at its certificates."""

import asyncio
import contextlib
import faulthandler
import signal
import sys
from collections.abc import Callable

import structlog

from replog.config.processes import LogConfig
from replog.rpc.tasks import for_good
from replog.rpc.tls import Tls
from replog.server import logging

log = structlog.get_logger()


def survive_signals() -> None:
    """Ignore SIGHUP until `answer_hang_up`, and SIGUSR2 always: otherwise they would end the process.

    SIGQUIT prints the stack of each thread on stderr, like Kafka's."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    if sys.__stderr__ is None:
        signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    else:
        faulthandler.register(signal.SIGQUIT, sys.__stderr__)


def answer_hang_up(read: Callable[[], LogConfig], tls: Tls | None) -> "asyncio.Task[None]":
    """Answer SIGHUP on this event loop; keep the task that is returned. If `read` raises, the old settings stay."""
    hung_up = asyncio.Event()

    async def answer() -> None:
        while await hung_up.wait():
            hung_up.clear()
            await _read_again(read, tls)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hung_up.set)
    return for_good(answer(), "SIGHUP")


async def _read_again(read: Callable[[], LogConfig], tls: Tls | None) -> None:
    def read_and_log() -> LogConfig:
        config = read()
        logging.configure_process(config)  # opens its file, which may wait for a disk
        return config

    try:
        config = await asyncio.to_thread(read_and_log)
    except Exception as error:  # noqa: BLE001 (otherwise no later SIGHUP would be answered)
        log.error("SIGHUP: the settings stay as they are", reason=str(error))
    else:
        log.warning("SIGHUP: settings read again", log_level=config.log_level)
    if tls is not None:
        with contextlib.suppress(OSError):
            await asyncio.to_thread(tls.look)
