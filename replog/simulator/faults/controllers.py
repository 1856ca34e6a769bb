"""Faults of the controller and its store."""

from replog.simulator.faults.nemesis import Nemesis, NotNow, deed
from replog.simulator.profiles import FaultKind


def _running(n: Nemesis) -> None:
    if not n.cluster.controller_member.running:
        raise NotNow


@deed(FaultKind.KILL_CONTROLLER)
async def kill_controller(n: Nemesis) -> None:
    _running(n)
    n.begin(FaultKind.KILL_CONTROLLER)
    n.cluster.controller_member.kill()


@deed(FaultKind.KILL_CONTROLLER_BEFORE_COMMIT)
async def kill_before_commit(n: Nemesis) -> None:
    """It has decided, and nobody will ever know what."""
    _running(n)
    n.begin(FaultKind.KILL_CONTROLLER_BEFORE_COMMIT)
    n.cluster.controller_member.die_at_commit = "before"


@deed(FaultKind.KILL_CONTROLLER_AFTER_COMMIT)
async def kill_after_commit(n: Nemesis) -> None:
    """What it decided is durable, but the caller gets no answer."""
    _running(n)
    n.begin(FaultKind.KILL_CONTROLLER_AFTER_COMMIT)
    n.cluster.controller_member.die_at_commit = "after"


@deed(FaultKind.STOP_CONTROLLER)
async def stop_controller(n: Nemesis) -> None:
    _running(n)
    n.begin(FaultKind.STOP_CONTROLLER)
    n.cluster.controller_member.stop()


@deed(FaultKind.PAUSE_CONTROLLER)
async def pause_controller(n: Nemesis) -> None:
    _running(n)
    n.begin(FaultKind.PAUSE_CONTROLLER)
    member = n.cluster.controller_member
    process = member.process
    member.pause()
    await n.for_a_while()
    if member.process is process:
        member.resume()


@deed(FaultKind.STORE_FAILS)
async def store_fails(n: Nemesis) -> None:
    n.begin(FaultKind.STORE_FAILS)
    n.cluster.controller_member.store_fails = True
    await n.for_a_while()
    n.cluster.controller_member.store_fails = False
