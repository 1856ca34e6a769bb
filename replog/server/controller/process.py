"""The controller as a process: from its settings to a server that answers, until it is stopped."""

import asyncio
import random
from collections.abc import Callable, Coroutine

from replog.config.listeners import nobody_reaches
from replog.config.processes import ControllerConfig
from replog.errors import ErrorCode
from replog.rpc.peer import Role
from replog.rpc.tasks import end
from replog.rpc.transport import Transport
from replog.rpc.transports import server_tls, transport_named
from replog.server.clock import Clock, SystemClock
from replog.server.controller.etcd.client import EtcdClient, transport_to_etcd
from replog.server.controller.etcd.election import Election
from replog.server.controller.etcd.store import EtcdStore
from replog.server.controller.server import ControllerServer
from replog.server.controller.sqlite_store import SqliteStore, StoreInThread
from replog.server.metrics.process import shown_at
from replog.server.process import in_background, set_up, stop_signals
from replog.server.slow_steps import SlowSteps


def main(config: ControllerConfig, read: Callable[[], ControllerConfig], started: Callable[[], None]) -> None:
    """Run until SIGTERM or SIGINT. `read` reads the settings again; `started` is called once it serves.

    Raises ReplogError if it cannot start, NOT_CONTROLLER if it must not go on: another has taken over its store."""
    asyncio.run(_run(config, read, started, set_up()))


def controller_server(
    config: ControllerConfig, transport: Transport, clock: Clock, rng: random.Random, to_etcd: Transport | None = None
) -> ControllerServer:
    """Make a server on the store of its settings. Raises KAFKA_STORAGE_ERROR if a file cannot be used."""
    if config.metadata_store == "sqlite":
        return ControllerServer(config, StoreInThread(SqliteStore(config.metadata_log_dir)), transport, clock, rng)
    prefix = config.metadata_etcd_prefix
    etcd = EtcdClient(to_etcd or transport_to_etcd(config), config.metadata_etcd_endpoints.split(","))
    address = config.advertised_listeners or config.listeners
    if nobody_reaches(address):  # only when it starts: `format` and `backup` may have the file without an address
        raise ErrorCode.INVALID_CONFIG.error(
            f"listeners={address} is no address that brokers can connect to; set advertised.listeners too"
        )
    election = Election(etcd, prefix, address, config.metadata_etcd_lease_seconds, clock)
    store = EtcdStore(etcd, prefix, rng, election.leads)
    return ControllerServer(config, store, transport, clock, rng, election)


async def _run(
    config: ControllerConfig, read: Callable[[], ControllerConfig], started: Callable[[], None], steps: SlowSteps
) -> None:
    stopped = stop_signals()
    tls = server_tls(config, (config.bound,), Role.CONTROLLER)
    transport = transport_named(config.rpc_transport, tls, config)
    to_etcd = transport_to_etcd(config) if config.metadata_store == "etcd" else None
    etcd_tls = to_etcd.tls if to_etcd is not None else None
    server = controller_server(config, transport, SystemClock(), random.SystemRandom(), to_etcd)

    async def run() -> None:
        async with in_background(read, tls, [config.bound]), shown_at(config, server.metrics, steps, tls, etcd_tls):
            await server.start()  # waits until an etcd answers
            if tls is not None:
                tls.check_cluster(server.controller.state.image.cluster_id)
            started()
            await server.wait()

    await serve(server, run(), stopped)


async def serve(server: ControllerServer, work: Coroutine[None, None, None], stopped: asyncio.Event) -> None:
    """Do the work of a server until it ends or until told to stop, then stop the server."""
    stopping, running = asyncio.create_task(stopped.wait()), asyncio.create_task(work)
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        await end(running, stopping)
        await server.stop()
