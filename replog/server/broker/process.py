"""The broker as an operating system process: signals in, exit status out; budgets that fit a container's memory."""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import structlog

from replog.common.buffers import tune_allocator
from replog.config.processes import BrokerConfig
from replog.log.files.open_files import OPEN_FILES
from replog.log.files.tail import ALL_BYTES
from replog.rpc import limits
from replog.rpc.peer import Role
from replog.rpc.tasks import end
from replog.rpc.transports import server_tls, transport_named
from replog.server.broker.broker import Broker
from replog.server.broker.cleaning.cleaning_process import CleaningProcess
from replog.server.clock import SystemClock
from replog.server.metrics.process import shown_at
from replog.server.process import in_background, set_up, stop_signals
from replog.server.slow_steps import SlowSteps
from replog.server.work import start_workers

log = structlog.get_logger()

BASE_BYTES = 80 << 20  # a broker that has started, without what the budgets bound
LEAST = 1 << 20  # bytes of each budget
_BUDGETS = ("queued_max_request_bytes", "queued_max_response_bytes", "log_cleaner_dedupe_buffer_size")
_GROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def main(config: BrokerConfig, read: Callable[[], BrokerConfig], started: Callable[[], None]) -> int:
    """Run until SIGTERM or SIGINT (0) or until the broker fails (1). `read` reads the settings again; `started` is
    called once it serves. Raises ReplogError if it cannot start."""
    steps = set_up()
    tune_allocator()
    return asyncio.run(_run(fitted(config, min(memory_limits(), default=None)), read, started, steps))


async def _run(
    config: BrokerConfig, read: Callable[[], BrokerConfig], started: Callable[[], None], steps: SlowSteps
) -> int:
    start_workers()
    stopped = stop_signals()
    tls = server_tls(config, config.bound, Role.BROKER, str(config.node_id))
    transports = {
        protocol: transport_named(config.rpc_transport, tls if protocol == "SSL" else None, config)
        for protocol in {listener.protocol for listener in config.bound}
    }
    transport = transports[config.security_protocol]
    broker = Broker(config, transport, SystemClock(), random.Random(), CleaningProcess(), tls, transports)
    broker.inspection.longest_step_s = steps.longest_s
    async with in_background(read, tls, config.bound), shown_at(config, broker.metrics, steps, tls):
        await serve(broker, started, stopped)
    return 1 if broker.failed else 0


async def serve(broker: Broker, started: Callable[[], None], stopped: asyncio.Event) -> None:
    """Start the broker, and serve until told to stop or until the broker fails."""
    tasks = [asyncio.create_task(work) for work in (broker.start(), broker.wait(), stopped.wait())]
    starting, failing, stopping = tasks
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            started()
            await asyncio.wait({failing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            await broker.stop()
        elif failing.done():
            failing.result()
    finally:
        await end(*tasks)


def memory_limits(groups: Path = _GROUPS, own: Path = _OWN) -> Iterator[int]:
    """Yields the limits of this process's control groups, in bytes."""
    with suppress(OSError, ValueError):
        for line in own.read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds and "memory" not in kinds.split(","):
                continue
            root, name = (groups / "memory", "memory.limit_in_bytes") if kinds else (groups, "memory.max")
            place = root / path.lstrip("/")
            for group in (place, *place.parents):
                with suppress(OSError, ValueError):  # "max" is no number
                    yield int((group / name).read_text())
                if group == root:
                    break


def fitted(config: BrokerConfig, limit: int | None) -> BrokerConfig:
    """Return the settings with budgets made smaller by the same factor, if they do not fit into `limit` together."""
    budgets = {name: int(getattr(config, name)) for name in _BUDGETS}
    total = sum(budgets.values()) + ALL_BYTES + limits.MAX_UNREAD_BYTES
    if limit is None or BASE_BYTES + total <= limit:
        return config
    factor = max(limit - BASE_BYTES, 0) / total
    smaller = {name: max(int(budget * factor), LEAST) for name, budget in budgets.items()}
    OPEN_FILES.get().tails.limit = max(int(ALL_BYTES * factor), LEAST)
    limits.MAX_UNREAD_BYTES = max(int(limits.MAX_UNREAD_BYTES * factor), 2 * limits.MAX_REQUEST_BYTES)
    log.warning(
        "little memory: budgets are made smaller",
        limit=limit,
        wanted=BASE_BYTES + total,
        remedy="give this broker's control group more memory, or lower these settings yourself",
        **{name.replace("_", "."): budget for name, budget in smaller.items()},
    )
    return config.model_copy(update=smaller)
