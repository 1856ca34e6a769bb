"""The broker as an operating system process: signals in, exit status out."""

import asyncio
import random
import signal
from collections.abc import Callable

import structlog

from replog.config.processes import BrokerConfig
from replog.rpc.allocator import tune_allocator
from replog.rpc.grpcio.channel import GrpcTransport
from replog.rpc.grpcio.wake_ups import take_together
from replog.rpc.names import warn_of_unknown
from replog.rpc.peer import Role
from replog.rpc.tasks import for_good
from replog.rpc.transports import server_tls, transport_named
from replog.server.broker.broker import Broker
from replog.server.broker.cleaning.cleaning_process import CleaningProcess
from replog.server.certificate import looked_at_daily
from replog.server.clock import SystemClock
from replog.server.descriptors import raise_limit
from replog.server.garbage import search_what_is_new
from replog.server.hang_up import answer_hang_up, survive_signals
from replog.server.memory import fitted, memory_limit
from replog.server.metrics.process import shown_at
from replog.server.slow_steps import SlowSteps
from replog.server.threads import start_workers

log = structlog.get_logger()


def main(config: BrokerConfig, read: Callable[[], BrokerConfig], started: Callable[[], None]) -> int:
    """Run until SIGTERM or SIGINT (0) or until the broker fails (1). `read` reads the settings again; `started` is
    called once it serves. Raises ReplogError if it cannot start."""
    survive_signals()
    tune_allocator()
    raise_limit()
    config = fitted(config, memory_limit())
    steps = SlowSteps()
    steps.watch()
    search_what_is_new()
    return asyncio.run(_run(config, read, started, steps))


async def _run(
    config: BrokerConfig, read: Callable[[], BrokerConfig], started: Callable[[], None], steps: SlowSteps
) -> int:
    told_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    start_workers()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop.set)
    tls = server_tls(config, config.bound, Role.BROKER, str(config.node_id))
    tasks = answer_hang_up(read, tls), for_good(warn_of_unknown(config.bound), "advertised names")
    transports = {
        protocol: transport_named(config.rpc_transport, tls if protocol == "SSL" else None, config)
        for protocol in {listener.protocol for listener in config.bound}
    }
    transport = transports[config.security_protocol]
    if isinstance(transport, GrpcTransport):
        take_together()
    broker = Broker(config, transport, SystemClock(), random.Random(), CleaningProcess(), tls, transports)
    broker.inspection.longest_step_s = steps.longest_s
    async with shown_at(config, broker.metrics, steps, tls), looked_at_daily(tls):
        await _serve(broker, started, told_to_stop)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return 1 if broker.failed else 0


async def _serve(broker: Broker, started: Callable[[], None], told_to_stop: asyncio.Event) -> None:
    """Start the broker, and serve until told to stop or until the broker fails."""
    tasks = [asyncio.create_task(work) for work in (broker.start(), broker.wait(), told_to_stop.wait())]
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
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
