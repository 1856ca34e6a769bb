"""What a killed command leaves behind: chaos waits for it as for anything else, and names it."""

import asyncio

import pytest

from replog.chaos import world as chaos_world
from replog.chaos.world import Starved
from tests.replog.server.broker.conftest import InProcessCluster, cluster

__all__ = ["cluster"]


class World(chaos_world.ChaosWorld):
    """Of a cluster in this process."""

    bootstrap = ""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._processes = {}


@pytest.mark.parametrize(("short", "error"), [("the cluster waited", Starved), ("", AssertionError)])
async def test_a_setting_that_is_left_is_a_failure_unless_the_machine_was_starved(
    cluster: InProcessCluster, short: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World((await cluster.start_broker(1)).address)
    await world.no_move_is_left()
    async with cluster.admin() as admin:
        await admin.alter_broker_configs(1, {"cordoned.log.dirs": "*"})
        async with asyncio.timeout(60):
            while not (await admin.describe_cluster()).brokers[0].configs:
                await asyncio.sleep(0.01)
        monkeypatch.setattr(chaos_world, "strain", lambda before, after: short)
        monkeypatch.setattr(chaos_world, "IN_SYNC_TIMEOUT_S", 0.0)
        with pytest.raises(error, match=r"not all is undone within 0 s: settings of brokers are left: \{1: "):
            await world.no_move_is_left()
