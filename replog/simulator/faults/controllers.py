"""Faults of the controller and its store."""

from functools import partial

from replog.simulator.cluster.members import ControllerMember
from replog.simulator.faults.nemesis import Nemesis, NotNow, deed
from replog.simulator.profiles import FaultKind


def _running(n: Nemesis) -> ControllerMember:
    if not n.cluster.controller_member.running:
        raise NotNow
    return n.cluster.controller_member


@deed(FaultKind.KILL_CONTROLLER, FaultKind.STOP_CONTROLLER)
async def kill_or_stop(n: Nemesis, kind: FaultKind) -> None:
    member = _running(n)
    n.begin(kind)
    member.kill() if kind is FaultKind.KILL_CONTROLLER else member.stop()


@deed(FaultKind.KILL_CONTROLLER_BEFORE_COMMIT, FaultKind.KILL_CONTROLLER_AFTER_COMMIT)
async def kill_at_a_commit(n: Nemesis, kind: FaultKind) -> None:
    """Before it nobody will ever know what was decided; after it that is durable, and the caller gets no answer."""
    member = _running(n)
    n.begin(kind)
    member.die_at_commit = "before" if kind is FaultKind.KILL_CONTROLLER_BEFORE_COMMIT else "after"


@deed(FaultKind.PAUSE_CONTROLLER)
async def pause(n: Nemesis, kind: FaultKind) -> None:
    member = _running(n)
    await n.lasting(kind, member.pause, partial(member.resume, member.process))


@deed(FaultKind.STORE_FAILS)
async def store_fails(n: Nemesis, kind: FaultKind) -> None:
    def fail(fails: bool) -> None:
        n.cluster.controller_member.store_fails = fails

    await n.lasting(kind, lambda: fail(True), lambda: fail(False))
