"""Faults of the controller and its store."""

import asyncio
import tempfile
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

from replog.log.directories.identity import META_PROPERTIES, read_position
from replog.rpc.v1.metadata_pb2 import MetadataRecord
from replog.server.controller.formatting import format_cluster
from replog.server.controller.restoring import VERSIONS_AHEAD, restored_store
from replog.server.controller.sqlite_store import DATABASE_NAME, SqliteStore, create_store
from replog.simulator.cluster.members import ETCD, ControllerMember
from replog.simulator.faults.nemesis import Nemesis, NotNow, both_ways, fault
from replog.simulator.profiles import FaultKind

WRITTEN_S = 1.0  # a file that was written this long ago is durable


@fault(FaultKind.KILL_CONTROLLER, FaultKind.STOP_CONTROLLER, FaultKind.STOP_ETCD)
async def kill_or_stop(n: Nemesis, kind: FaultKind) -> None:
    member = n.running(n.cluster.etcd if kind is FaultKind.STOP_ETCD else n.cluster.controller_member)
    n.begin(kind)
    member.stop() if kind is FaultKind.STOP_CONTROLLER else member.kill()


@fault(FaultKind.KILL_CONTROLLER_BEFORE_COMMIT, FaultKind.KILL_CONTROLLER_AFTER_COMMIT)
async def kill_at_a_commit(n: Nemesis, kind: FaultKind) -> None:
    """Before a commit the decision is lost; after it the decision is durable, and its caller gets no answer."""
    member = n.running(n.cluster.controller_member)
    n.begin(kind)
    member.die_at_commit = "before" if kind is FaultKind.KILL_CONTROLLER_BEFORE_COMMIT else "after"


@fault(FaultKind.PAUSE_CONTROLLER, FaultKind.PAUSE_ETCD)
async def pause(n: Nemesis, kind: FaultKind) -> None:
    member = n.running(n.cluster.etcd if kind is FaultKind.PAUSE_ETCD else n.cluster.controller_member)
    await n.lasting(kind, member.pause, partial(member.resume, member.process))


@fault(FaultKind.CUT_FROM_ETCD)
async def cut_from_etcd(n: Nemesis, kind: FaultKind) -> None:
    await n.cut_for_a_while(kind, both_ways([n.running(n.cluster.controller_member).name], [ETCD]))


@fault(FaultKind.SLOW_ETCD)
async def slow_etcd(n: Nemesis, kind: FaultKind) -> None:
    """Answers take about as long as an attempt may take, or as a lease lasts."""
    name, delay_ms = n.running(n.cluster.controller_member).name, n.rng.choice((300.0, 900.0, 2500.0))
    await n.slow_for_a_while(kind, name, ETCD, (delay_ms / 4, delay_ms))


@fault(FaultKind.LOSE_LEASE)
async def lose_lease(n: Nemesis, kind: FaultKind) -> None:
    """The leader's lease is revoked, as an operator might do, and it does not know yet."""
    etcd = n.cluster.etcd
    leader = etcd.leader() if etcd is not None and etcd.running else None
    if etcd is None or leader is None:
        raise NotNow
    n.begin(kind, epoch=leader.create_revision)
    etcd.revoked.add(leader.create_revision)
    etcd.state.revoke(leader.lease)


@fault(FaultKind.OTHER_CONTROLLER)
async def other_controller(n: Nemesis, kind: FaultKind) -> None:
    """A controller of another cluster starts at an address that brokers' settings name, and stays. All brokers belong
    to this cluster by now, so none may follow it."""
    other = n.cluster.other_controller
    if other is None or not other.held:
        raise NotNow
    n.begin(kind)
    n.cluster.release(other)


@fault(FaultKind.STORE_FAILS)
async def store_fails(n: Nemesis, kind: FaultKind) -> None:
    def fail(fails: bool) -> None:
        n.cluster.controller_member.store_fails = fails

    await n.lasting(kind, lambda: fail(True), lambda: fail(False))


@fault(FaultKind.OLDER_STORE, FaultKind.NEW_STORE)
async def replace_store(n: Nemesis, kind: FaultKind) -> None:
    """For a while the controller uses a copy of its store that is behind every broker, or an empty store of another
    cluster. It begins once every broker's disk knows more than the copy: others could not refuse it (CT-24)."""
    member = n.running(n.cluster.controller_member)
    copy = _stored(member) if kind is FaultKind.OLDER_STORE else []
    await n.for_a_while()
    version = copy[-1].version if copy else 0
    knows_more = [all(read_position(disk).version > version for disk in b.disks) for b in n.cluster.members.values()]
    await asyncio.sleep(WRITTEN_S)
    if not all(knows_more) or not member.running or member.other_store is not None:
        raise NotNow
    places = (n.kernel.directory / f"other-store-{number}" for number in count())
    place = next(each for each in places if not each.exists())
    if copy:
        create_store(place, copy)
    else:
        format_cluster(place, rng=n.rng)
    await n.lasting(kind, partial(member.replace_store, place), partial(member.replace_store, None), version=version)


@fault(FaultKind.LOSE_STORE)
async def lose_store(n: Nemesis, kind: FaultKind) -> None:
    """All processes die, and the store is rebuilt from all log directories, and from an older copy if there is one:
    nothing committed is lost. Without a copy settings are lost, so then no promise may depend on one."""
    member = n.running(n.cluster.controller_member)
    copy = _stored(member) if n.cluster.plan.fsync or n.rng.random() < 0.5 else []
    await n.for_a_while()
    brokers = n.cluster.members.values()
    disks = [disk for broker in brokers for disk in broker.disks]
    begun = all((disk / META_PROPERTIES).exists() for disk in disks)
    if not begun or not member.running or member.other_store is not None:
        raise NotNow
    newest = max(read_position(disk).version for disk in disks)
    if newest // VERSIONS_AHEAD < _stored(member)[-1].version // VERSIONS_AHEAD:
        raise NotNow  # otherwise it would get the versions of the last restoration, of which no broker has heard
    n.begin(kind, version=copy[-1].version if copy else 0)
    everybody = list(n.cluster.everyone())
    for each in everybody:
        each.held = True
        each.kill()
    place = member.config.metadata_log_dir
    with tempfile.TemporaryDirectory() as scratch:
        if copy:
            create_store(Path(scratch), copy)
        for left in place.glob(f"{DATABASE_NAME}*"):
            left.unlink()
        older = Path(scratch) / DATABASE_NAME if copy else None
        create_store(place, restored_store({b.broker_id: b.disks for b in brokers}, n.rng, 0, older).records)
    for each in everybody:
        n.cluster.release(each)


def _stored(member: ControllerMember) -> list[MetadataRecord]:
    with closing(SqliteStore(member.config.metadata_log_dir, read_only=True)) as store:
        return store.load()
