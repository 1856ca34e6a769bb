"""Faults of disks, and what an operator does about them: mends the disk, moves damaged replicas away."""

import asyncio
import errno
import shutil
from pathlib import Path

from replog.log.directories.identity import CLEAN_SHUTDOWN
from replog.log.errors import CorruptRecord
from replog.log.formats.batch import iterate_batches
from replog.log_tools.checker.findings import Severity
from replog.log_tools.verify.paths import verify
from replog.log_tools.verify.segment import Options, VerifiedTotals
from replog.simulator.cluster.members import BrokerMember, Member
from replog.simulator.faults.crashes import down
from replog.simulator.faults.nemesis import Nemesis, NotNow, fault
from replog.simulator.profiles import FaultKind
from replog.topic import TopicPartition

ERRORS = {
    FaultKind.DISK_FULL: errno.ENOSPC,
    FaultKind.DISK_ERROR: errno.EIO,
    FaultKind.NO_DESCRIPTORS: errno.EMFILE,
    FaultKind.DENIED: errno.EACCES,
}


@fault(*ERRORS)
async def failing(n: Nemesis, kind: FaultKind) -> None:
    """All directories of a broker fail at once. Each goes offline at its first error, and with the last one the broker
    stops, again and again until they are repaired. Without descriptors or room no broker stops: it refuses what needs
    them, and tries again. If files are denied, each replica goes offline by itself, and comes back (D57)."""
    member, disk = n.running_broker(), n.kernel.disk
    member.disk_trouble |= kind is not FaultKind.NO_DESCRIPTORS
    name = member.name
    await n.lasting(kind, lambda: disk.fail(name, ERRORS[kind]), lambda: disk.heal(name), broker=name)
    member.restart_if_repaired()


def _any_running(n: Nemesis) -> Member:
    """Return a running broker, or now and then the controller."""
    controller = n.cluster.controller_member
    return controller if controller.running and n.rng.random() < 0.25 else n.running_broker()


@fault(FaultKind.SLOW_DISK)
async def slow_disk(n: Nemesis, kind: FaultKind) -> None:
    member = _any_running(n)
    factor = n.rng.choice((10, 30, 100))
    times, name = n.kernel.disk.times, member.name
    await n.lasting(kind, lambda: times.slow(name, factor), lambda: times.heal(name), of=name, factor=factor)


@fault(FaultKind.STALL_DISK)
async def stall_disk(n: Nemesis, kind: FaultKind) -> None:
    """For a while, operations that wait for the device do not complete; those in memory do."""
    member, seconds = _any_running(n), n.a_while_s()
    n.begin(kind, of=member.name, seconds=round(seconds, 3))
    n.kernel.disk.times.stall(member.name, n.kernel.loop.time() + seconds)


def _expendable(n: Nemesis) -> BrokerMember:
    """Return a broker that the budget allows to harm, and charge the budget."""
    budget = n.cluster.budget
    member = n.one_of(
        [m for m in n.cluster.members.values() if not m.held and not m.paused and budget.may_harm(m.broker_id)]
    )
    n.cluster.harm(member)
    return member


@fault(FaultKind.WIPE_DISK)
async def wipe_disk(n: Nemesis, kind: FaultKind) -> None:
    """A broker comes back under its id with empty disks, sometimes before anybody noticed that it was down (ISR-14)."""
    member = _expendable(n)
    n.begin(kind, broker=member.name)
    await down(member)
    for disk in member.disks:
        shutil.rmtree(disk, ignore_errors=True)
    await n.for_a_while()
    n.cluster.release(member)


@fault(FaultKind.ALL_DOWN_ONE_EMPTY)
async def all_down_one_empty(n: Nemesis, kind: FaultKind) -> None:
    """All brokers go down and come back, in any order, and one of them has nothing, or one replica less. Power fails
    only where that costs nothing, since the others must have everything (CT-29, CT-30)."""
    if n.cluster.plan.acknowledged_by_one:
        raise NotNow  # otherwise the last broker up might acknowledge alone
    victim, how = _expendable(n), n.rng.choice(("killed", "stopped", "dark"))
    n.begin(kind, broker=victim.name, how=how)
    members = list(n.cluster.members.values())
    n.rng.shuffle(members)
    for member in members:
        member.held = True
        if how == "dark" and n.cluster.plan.fsync and member.up:
            member.power_loss()
        elif how == "stopped":
            member.stop()
        else:
            member.kill()
        await asyncio.sleep(n.rng.choice((0.0, 0.5, 1.5)) * n.rng.random())
    await asyncio.sleep(n.rng.random())
    await down(victim)  # if it has not stopped yet
    replicas = sorted(path for disk in victim.disks for path in disk.glob("*-*") if path.is_dir())
    lost = [n.rng.choice(replicas)] if replicas and n.rng.random() < 0.3 else victim.disks
    if n.cluster.budget.may_harm(victim.broker_id):  # the harm that was charged may be undone by now
        n.cluster.harm(victim)
        for path in lost:
            shutil.rmtree(path, ignore_errors=True)
    n.rng.shuffle(members)
    for member in members:
        await asyncio.sleep(n.rng.choice((0.0, 0.5, 1.5)) * n.rng.random())
        n.cluster.release(member)


@fault(FaultKind.NO_DISK_MOUNTED)
async def no_disk_mounted(n: Nemesis, kind: FaultKind) -> None:
    """All brokers start on empty directories, some of them twice, and stop; then one after the other has its disks. The
    last one is no loss, if it never comes: the others must have everything (CT-30)."""
    if n.cluster.plan.acknowledged_by_one or any(member.disks_away for member in n.cluster.members.values()):
        raise NotNow
    last = _expendable(n)
    n.begin(kind, last=last.name)
    members = [member for member in n.cluster.members.values() if member is not last]
    n.rng.shuffle(members)
    members.append(last)
    for member in members:
        await down(member)
    for member in members:
        member.mount(disks=False)
        n.cluster.release(member)
    await n.for_a_while()
    n.rng.choice(members).kill()
    await n.for_a_while()
    for member in members:
        await down(member)
        n.cluster.mount(member)
        n.cluster.release(member)
        await n.for_a_while()


@fault(FaultKind.FLIP_BIT)
async def flip_bit(n: Nemesis, kind: FaultKind) -> None:
    """Flip one bit of one replica's log while its broker is down.

    In the newest segment the recovery at the broker's start finds it, except in a leader epoch, which no CRC covers
    (RB-2). In another segment an operator finds it, who verifies the files and moves the damaged replica away."""
    member = _expendable(n)
    logs = sorted(path for disk in member.disks for path in disk.glob("*-*/*.log") if path.stat().st_size)
    if not logs:
        raise NotNow
    path = n.rng.choice(logs)
    n.begin(kind, broker=member.name, file=str(path))
    await down(member)
    position = n.kernel.disk.flip_bit(path, n.kernel.stream("flipped bits"))
    read_at_start = path == max(path.parent.glob("*.log")) and not (path.parent.parent / CLEAN_SHUTDOWN).exists()
    in_an_epoch = position is not None and _in_an_epoch(path, position)
    if not read_at_start or position is None or in_an_epoch or n.rng.random() < 0.3:
        # A flip may raise an epoch: nobody can tell it from a later epoch that the checkpoint lacks (divergence 31).
        _repair(n, member, [path.parent] if in_an_epoch else [])
    n.cluster.release(member)


def _in_an_epoch(path: Path, flipped: int) -> bool:
    """Return True if the byte belongs to a batch's leader epoch; False, too, if the flip made the batch unreadable."""
    try:
        return any(position + 12 <= flipped < position + 16 for position, _ in iterate_batches(path.read_bytes()))
    except CorruptRecord:
        return False


def _repair(n: Nemesis, member: BrokerMember, known: list[Path]) -> None:
    """Remove the replicas that a verification finds damaged, and those that are `known` to be. The broker is down."""
    faults = [
        finding
        for finding in verify([disk for disk in member.disks if disk.exists()], Options(), VerifiedTotals())
        if finding.severity is Severity.FAULT and finding.file.parent not in member.disks
    ]
    for damaged in dict.fromkeys([*known, *(finding.file.parent for finding in faults)]):
        n.kernel.trace.add("damaged replica removed", broker=member.name, replica=damaged.name)
        shutil.rmtree(damaged)


@fault(FaultKind.MOVE_LOG_DIR)
async def move_log_dir(n: Nemesis, kind: FaultKind) -> None:
    """Move a broker's replicas, each to another of its directories, or sometimes to its own, which cancels a move.

    Two times in three the broker dies meanwhile: at one of its next changes of files, or by a power loss."""
    if len(n.cluster.plan.disks) < 2:
        raise NotNow
    member = n.running_broker()
    moves = {tp: str(_target(n, member, tp)) for tp in n.workload.partitions}
    n.begin(kind, broker=member.name, moves={str(tp): to for tp, to in moves.items()})
    process, fate = member.process, n.rng.random()
    if fate < 0.35:
        n.kernel.disk.kill_at(process, n.rng.randint(1, n.rng.choice((20, 60, 150))))
    await n.workload.administer_once(
        "move between log directories", lambda admin: admin.alter_replica_log_dirs(member.broker_id, moves)
    )
    if fate > 0.65:
        await asyncio.sleep(n.rng.random() * n.rng.choice((0.01, 0.1)))
        if member.process is process and n.cluster.may_lose_power(member):
            n.cluster.lose_power(member)


def _target(n: Nemesis, member: BrokerMember, tp: TopicPartition) -> Path:
    elsewhere = [disk for disk in member.disks if not (disk / tp.directory_name).exists()]
    return n.rng.choice(elsewhere if n.rng.random() < 0.9 else member.disks)
