"""Several controllers over one etcd, the simulator's, each with its server, in this process."""

import asyncio
import random
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from grpc_health.v1 import health_pb2

from replog.config.processes import ControllerConfig
from replog.controller.configs import ConfigChange
from replog.controller.decision import Decision
from replog.errors import ErrorCode, ReplogError
from replog.metadata.changes import Change
from replog.rpc import methods
from replog.rpc.serving import HEALTH
from replog.rpc.transports import H2Transport
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.control.controller_link import ControllerLink
from replog.server.clock import SystemClock
from replog.server.controller.formatting import format_etcd
from replog.server.controller.process import controller_server
from replog.server.controller.sqlite_store import create_store
from replog.simulator.etcd import EtcdState
from tests.replog.server.controller.stores import records, simulated_etcd

LEASE_S = 2
CONTROLLER, SERVING = methods.CONTROLLER.full_name, health_pb2.HealthCheckResponse.SERVING
RATE = ConfigChange({"leader.replication.throttled.rate": "7"}, [], False)


class Controllers:
    def __init__(self, servers, etcd, link):
        self.servers = servers
        self.etcd = etcd
        self.link = link

    def deciding(self):
        return [server for server in self.servers if server.controller._active]

    async def the_one(self, besides=()):
        async with asyncio.timeout(LEASE_S + 5):
            while len(found := self.deciding()) != 1 or found[0] in besides:
                await asyncio.sleep(0.02)
        return found[0]

    def revoke(self):
        """The lease of the one that leads."""
        (lease,) = [lease for lease, known in self.etcd._leases.items() if known.keys]
        self.etcd.revoke(lease)


@asynccontextmanager
async def controllers(count=3):
    state = EtcdState()
    async with simulated_etcd(state) as address, AsyncExitStack() as begun:
        await format_etcd(config_of(address), "c")
        servers = [server_of(config_of(address), seed) for seed in range(count)]
        for server in servers:
            begun.push_async_callback(server.stop)
            await server.start()
        link = ControllerLink(H2Transport(), ",".join(server.address for server in servers))
        begun.push_async_callback(link.close)
        yield Controllers(servers, state, link)


def config_of(etcd):
    settings = {"metadata.store": "etcd", "metadata.etcd.endpoints": etcd, "metadata.etcd.lease.seconds": LEASE_S}
    return ControllerConfig.parse({**settings, "listeners": "127.0.0.1:0"}, "test")


def server_of(config, seed=1):
    return controller_server(config, H2Transport(), SystemClock(), random.Random(seed))


async def decided(among):
    """A registration, which any controller that decides takes; its broker's epoch."""
    request = pb.RegisterBrokerRequest(
        cluster_id="c", broker_id=1, incarnation_id=b"i" * 16, address="127.0.0.1:1", previous_broker_epoch=-1
    )
    async with asyncio.timeout(LEASE_S + 5):
        while True:
            try:
                answer = await among.link.call(methods.Controller["register_broker"], request, 2.0)
            except ReplogError as error:
                if not error.retriable:
                    raise
                await asyncio.sleep(0.05)
            else:
                return answer.broker_epoch


async def health(server, service):
    channel = H2Transport().connect(server.address)
    try:
        request = health_pb2.HealthCheckRequest(service=service)
        return (await channel.call(methods.methods_of(HEALTH)["check"], request, 2.0)).status
    finally:
        await channel.close()


async def the_one_that_serves(among):
    async with asyncio.timeout(2 * LEASE_S + 10):
        while True:
            leader = await among.the_one()
            if [await health(server, CONTROLLER) == SERVING for server in among.servers] == [
                server is leader for server in among.servers
            ]:
                return leader
            await asyncio.sleep(0.02)


async def test_all_are_well_and_the_service_of_the_one_that_decides_serves():
    """A rolling restart would wait for ever for a standby that is not ready."""
    async with controllers() as among:
        await the_one_that_serves(among)
        assert [await health(server, "") for server in among.servers] == [SERVING] * 3
        among.revoke()
        leader = await the_one_that_serves(among)
        leader.controller.is_behind.set()
        async with asyncio.timeout(60):
            while SERVING in (await health(leader, ""), await health(leader, CONTROLLER)):
                await asyncio.sleep(0.02)
        await leader._report_role(True)
        assert await health(leader, CONTROLLER) != SERVING, "whatever it is elected to"
        assert await health(leader, "grpc.health.v1.Health") == SERVING, "it is alive"


async def test_the_next_one_takes_over_with_what_was_decided_when_one_stops():
    async with controllers() as among:
        first = await among.the_one()
        epoch = await decided(among)
        assert among.link.address == first.address, "the others have named it"
        known = first.controller.state.image.version
        first._running.cancel()
        second = await among.the_one(besides=[first])
        assert second.controller.state.image.brokers[1].broker_epoch == epoch
        assert second.controller.state.image.version >= known


async def test_who_commits_after_the_next_one_did_leads_no_longer_and_follows(monkeypatch):
    """It did not hear that its lease is gone: it still believes."""
    async with controllers(2) as among:
        first = await among.the_one()
        old = first.controller
        await decided(among)
        monkeypatch.setattr(old, "_leads", lambda: True)
        monkeypatch.setattr(first._store, "_leads", lambda: True)
        among.revoke()
        async with asyncio.timeout(LEASE_S + 5):
            while not (second := [server for server in among.deciding() if server is not first]):
                await asyncio.sleep(0.02)
        with pytest.raises(ReplogError, match="must stop"):
            await old.decide(lambda _: old.state.alter_broker_configs(1, RATE))
        await follows(first, second[0])


def version(server):
    return server.controller.state.image.version


async def follows(server, leader):
    async with asyncio.timeout(60):
        while server.controller.decides or version(server) < version(leader):
            assert not server._running.done(), server._running.exception()
            await asyncio.sleep(0.02)


async def test_a_standby_of_an_earlier_release_stops_before_it_decides_by_a_part_of_the_metadata(refused):
    """What it has read up to there does not come again: it would lead without what came with it."""
    async with controllers(2) as among:
        leader = await among.the_one()
        (standby,) = (server for server in among.servers if server is not leader)
        unknown = [Change("delegation-token/7", None, None), Change("producer_ids", None, 1000)]
        await leader.controller.decide(lambda _: Decision(unknown, None))
        with refused(ErrorCode.UNSUPPORTED_VERSION, "'delegation-token/7'", "a later release"):
            async with asyncio.timeout(LEASE_S + 5):
                await standby.wait()


async def test_a_store_that_nobody_has_made_is_refused_at_the_start(refused):
    async with simulated_etcd() as address:
        server = server_of(config_of(address))
        with refused(ErrorCode.KAFKA_STORAGE_ERROR, "replog controller format"):
            await server.start()
        await server.stop()


async def test_metadata_of_a_controller_on_sqlite_move_into_an_etcd(tmp_path, refused):
    many = [f"-topic/{'x' * 240}{number}" for number in range(5000)]  # chunks of them
    create_store(tmp_path, records("my-cluster", 1, 2, *many))
    async with simulated_etcd() as address:
        config = config_of(address)
        assert await format_etcd(config, moved=tmp_path) == "my-cluster"
        with refused(ErrorCode.KAFKA_STORAGE_ERROR, "already"):
            await format_etcd(config, "another")
        server = server_of(config)
        await server.start()
        image = server.controller.state.image
        assert (image.cluster_id, sorted(image.brokers), image.version >= 5003) == ("my-cluster", [1, 2], True)
        await server.stop()
