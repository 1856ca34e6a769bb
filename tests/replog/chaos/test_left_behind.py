"""What chaos waits for, names, and does not put down to a starved machine: what a command left, a silent client."""

import asyncio
from pathlib import Path

import pytest

from replog.chaos import run as chaos_run
from replog.chaos import world as chaos_world
from replog.chaos.client import ASSIGNED
from replog.chaos.notes import ACKNOWLEDGED, READ, SENT, Gathered, NoteWriter
from replog.chaos.world import CLIENTS, Starved
from tests.replog.server.broker.conftest import InProcessCluster, cluster

__all__ = ["cluster"]


class World(chaos_world.ChaosWorld):
    """Of a cluster in this process."""

    bootstrap = ""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._processes = {}
        self._lives = dict.fromkeys(CLIENTS, 1)


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


@pytest.mark.parametrize(("served", "error"), [((), Starved), (CLIENTS[:1], AssertionError)], ids=["none", "one"])
async def test_a_client_that_alone_is_not_served_is_a_failure_on_a_starved_machine_too(
    served: tuple[str, ...], error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = chaos_run.Run.__new__(chaos_run.Run)  # one that has begun needs namespaces
    run._world, run._notes = World(""), Gathered(tmp_path)
    for life in map(run._world.life, served):
        notes = NoteWriter(tmp_path / f"{life}.notes")
        for number, (topic, partition) in enumerate(ASSIGNED):
            value = f"{life}:{number}"
            notes.write(SENT, life, topic, partition, value, 1.0)
            notes.write(ACKNOWLEDGED, value, 0, 2.0)
            notes.write(READ, life, 1.0, 3.0, [[topic, partition, 0, value]])
    monkeypatch.setattr(chaos_world, "strain", lambda before, after: "the cluster waited")
    monkeypatch.setattr(chaos_run, "ACKNOWLEDGED_TIMEOUT_S", 0.0)
    with pytest.raises(
        error, match=r"no record acknowledged after its start within 0 s: .*client-2\.\d waits for steady-0"
    ):
        await run._acknowledged_since(0.5, "its start")
