"""The set-up of every process: signals, descriptors, garbage collection, a daily look at its certificate.

Python checks all objects again whenever their number has grown by a quarter: four times while a topic of 5,000
partitions is created, each time for 0.1 to 0.4 s, during which nothing is answered. Here, objects that survive a full
collection are not checked again until so many new ones exist that they may hide much garbage: objects that refer to
each other, such as those of closed connections. All others are freed at once."""

import asyncio
import contextlib
import faulthandler
import gc
import os
import resource
import signal
import stat
import sys
from collections.abc import AsyncIterator, Callable, Sequence

import structlog

from replog.config.listeners import Listener
from replog.config.processes import ServerConfig
from replog.log.files.open_files import OPEN_FILES
from replog.rpc.names import warn_of_unknown
from replog.rpc.tasks import end, for_good
from replog.rpc.tls import Tls
from replog.server import logging
from replog.server.slow_steps import SlowSteps

log = structlog.get_logger()

MOST_OPEN = 1 << 15  # files of logs; each costs the kernel a kilobyte or two
NEW = 700, 5, 1  # some 9,000 new objects are searched at a time, for some milliseconds
UNSEEN = 2_000_000  # objects, some 200 MB: then all are checked once more
DAY_S = 24 * 3600.0


def set_up() -> SlowSteps:
    """Prepare this process, before its event loop. Returns the watch over the loop's steps."""
    survive_signals()
    raise_limit()
    steps = SlowSteps()
    steps.watch()
    search_what_is_new()
    return steps


def survive_signals() -> None:
    """Ignore SIGHUP until `in_background`, and always what else log rotation and timers send: it would end the process.

    SIGQUIT prints the stack of each thread on stderr, like Kafka's."""
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    if sys.__stderr__ is None:
        signal.signal(signal.SIGQUIT, signal.SIG_IGN)
        return
    descriptor = sys.__stderr__.fileno()
    with contextlib.suppress(OSError):  # a pipe or a terminal that nobody reads would stop the process
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            descriptor = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    faulthandler.register(signal.SIGQUIT, descriptor)


def raise_limit() -> int:
    """Raise this process's soft limit of descriptors to the hard one, and return that.

    Half of it is for the files of logs. The rest is for connections, checkpoints, SQLite, reads of cold files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    most = MOST_OPEN * 2 if hard == resource.RLIM_INFINITY else hard
    OPEN_FILES.get().limit = min(most // 2, MOST_OPEN)
    return hard


def search_what_is_new() -> None:
    """Have garbage collections look at new objects, and at all of them only now and then."""
    unseen, searching_all = 0, True

    def on_search(phase: str, info: dict[str, int]) -> None:
        nonlocal unseen, searching_all
        if phase != "stop" or info["generation"] < 2:
            return
        unseen = 0 if searching_all else unseen + len(gc.get_objects(generation=2))
        searching_all = unseen > UNSEEN
        (gc.unfreeze if searching_all else gc.freeze)()

    gc.set_threshold(*NEW)
    gc.callbacks.append(on_search)
    gc.collect()


def stop_signals() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set from now on."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    return stopped


@contextlib.asynccontextmanager
async def in_background(
    read: Callable[[], ServerConfig], tls: Tls | None, listeners: Sequence[Listener]
) -> AsyncIterator[None]:
    """Look after settings and certificate, and warn of advertised names that this host does not resolve."""
    hung_up = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hung_up.set)
    names = for_good(warn_of_unknown(listeners), "advertised names")
    tasks = names, for_good(look_after(hung_up, read, tls), "SIGHUP, and the certificate")
    try:
        yield
    finally:
        await end(*tasks)


async def look_after(hung_up: asyncio.Event, read: Callable[[], ServerConfig], tls: Tls | None) -> None:
    """At each SIGHUP read the settings again, and use those of the log. If `read` raises, the old settings stay.

    Then, and every day though nobody connects, look at the certificate's files, and warn before it ends."""
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DAY_S):
                await hung_up.wait()
        if hung_up.is_set():
            hung_up.clear()
            await _read_again(read)
        if tls is not None:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(tls.look)
            tls.warn_of_end()


async def _read_again(read: Callable[[], ServerConfig]) -> None:
    def read_and_log() -> ServerConfig:
        config = read()
        logging.configure_process(config)  # opens its file, which may wait for a disk
        return config

    try:
        config = await asyncio.to_thread(read_and_log)
    except Exception as error:  # noqa: BLE001 (otherwise no later SIGHUP would be answered)
        log.error("SIGHUP: the settings stay as they are", reason=str(error))
    else:
        log.warning("SIGHUP: settings read again", log_level=config.log_level)
