"""A machine without CPU for a run is told from a defect, such as what a command left, or a client that alone is silent;
a run that uses up the CPU itself is none."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from replog.chaos import run as chaos_run
from replog.chaos import world as chaos_world
from replog.chaos.client import ACKNOWLEDGED, ASSIGNED, READ, SENT, Gathered, NoteWriter
from replog.chaos.run import FAILED, STARVED, VACUOUS, Vacuous
from replog.chaos.world import CLIENTS, Account, ChaosWorld, Starved, account, strain
from replog.errors import ErrorCode, ReplogError
from tests.replog.server.broker.conftest import InProcessCluster, cluster

__all__ = ["cluster"]

CORES = os.cpu_count() or 1


@pytest.mark.parametrize(
    ("ran_s", "waited_s", "short"),
    [
        (1.0, 0.1, False),  # on an idle machine
        (1.0, 4.0, True),
        (1.0, 0.6, False),
        (0.0, 0.0, False),  # all paused
        (9.5 * CORES, 30.0, False),  # it used up the machine itself: that is a defect
    ],
)
def test_who_waited_long_for_a_cpu_that_others_had_was_starved(ran_s, waited_s, short):
    before = Account(100.0, {1: (5.0, 5.0), 2: (0.0, 0.0)})
    after = Account(110.0, {1: (5.0 + ran_s, 5.0 + waited_s), 3: (50.0, 500.0)})
    assert bool(strain(before, after)) is short


def test_the_kernel_keeps_an_account_of_each_process():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        known = account([os.getpid(), process.pid, 1 << 30])
        assert known.processes.keys() == {os.getpid(), process.pid}
        assert known.processes[os.getpid()][0] > 0.0
        process.communicate(b"\n")


@pytest.mark.parametrize(("short", "error"), [("the cluster waited", Starved), ("", AssertionError)])
def test_a_deadline_that_is_missed_is_a_failure_unless_the_machine_was_starved(short, error, monkeypatch):
    world = object.__new__(ChaosWorld)
    world._processes = {}
    monkeypatch.setattr("replog.chaos.world.strain", lambda before, after: short)
    with pytest.raises(error, match=r"not in sync within \d+ s: broker-1"):
        asyncio.run(world.until(lambda: "broker-1", 0.0, "not in sync"))


@pytest.mark.parametrize(
    ("ended", "lost", "status"),
    [
        (Starved("no CPU"), False, STARVED),
        (Starved("no CPU"), True, FAILED),  # a lost record is one on any machine
        (ReplogError(ErrorCode.REQUEST_TIMED_OUT, "no answer"), False, STARVED),
        (AssertionError("replicas differ"), False, FAILED),
        (Vacuous("0 faults"), False, VACUOUS),
        (None, False, 0),
    ],
)
def test_each_end_has_a_status_of_its_own(ended, lost, status, monkeypatch, capsys, tmp_path):
    class Ends(chaos_run.Run):
        def __init__(self, *_):
            self._began_with, self._world = None, SimpleNamespace(account=lambda: None)

        async def _run(self):
            if ended is not None:
                raise ended

        def _check_so_far(self):
            assert not lost, "lost-write"

    monkeypatch.setattr(chaos_run, "Run", Ends)
    monkeypatch.setattr(chaos_run, "strain", lambda *_: "the cluster waited")
    monkeypatch.setattr(chaos_run, "_enclose", lambda: None)
    monkeypatch.setattr(chaos_run.tempfile, "mkdtemp", lambda **_: str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["chaos", "--seed", "7"])
    assert chaos_run.main() == status
    told = capsys.readouterr().out
    assert ("STARVED" in told, "VACUOUS" in told, "FAILED" in told) == (
        status == STARVED,
        status == VACUOUS,
        status == FAILED,
    )


class World(ChaosWorld):
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
        with pytest.raises(error, match=r"not all is undone within \d+ s: settings of brokers are left: \{1: "):
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
        error, match=r"no record acknowledged after its start within \d+ s: .*client-2\.\d waits for steady-0"
    ):
        await run._acknowledged_since(0.5, "its start")
