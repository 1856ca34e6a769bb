"""`replog broker decommission`: a broker leaves the cluster for good, without loss."""

import asyncio
from collections.abc import Callable

from replog.cli.partition_moves import LOOK_EVERY_S, cancel_moves, carry_out
from replog.cli.reassignment_plan import Assignment, Planner, assignment_of
from replog.client import Admin
from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition

CORDONED = "cordoned.log.dirs"
ROUNDS = 100  # looks at what is left: brokers may learn a moment later that moves have ended


async def decommission(
    admin: Admin, broker_id: int, timeout_s: float, say: Callable[[str], None], throttle: int = 0
) -> None:
    """Move all replicas away, wait until the broker stops, and forget it. A repeated call goes on where one was
    interrupted. Raises BROKER_ID_NOT_REGISTERED; INVALID_REPLICA_ASSIGNMENT if no broker is left to take a replica;
    REQUEST_TIMED_OUT."""
    await targets_without(admin, broker_id)  # raises before anything is changed
    await admin.alter_broker_configs(broker_id, {CORDONED: "*"})
    say(f"broker {broker_id} gets no new replicas from now on ({CORDONED}=*)")
    try:
        await _empty(admin, broker_id, timeout_s, say, throttle)
        await forget_when_stopped(admin, broker_id, timeout_s, say)
    except BaseException:
        say(
            f"broker {broker_id} still gets no new replicas, and moves that have begun go on; the same command goes on "
            f"from there, and replog broker decommission {broker_id} --cancel takes that back"
        )
        raise


async def cancel(admin: Admin, broker_id: int) -> int:
    """Let the broker stay: it gets new replicas again, and moves away from it are cancelled. Return how many."""
    await admin.alter_broker_configs(broker_id, {}, [CORDONED])
    moves = await admin.list_partition_reassignments()
    away = [tp for tp, move in moves.items() if broker_id in move.removing_replicas]
    return await cancel_moves(admin, away)


async def _empty(admin: Admin, broker_id: int, timeout_s: float, say: Callable[[str], None], throttle: int) -> None:
    for _ in range(ROUNDS):
        targets = await targets_without(admin, broker_id)
        if not targets:
            break
        say(f"moving {len(targets)} partitions to other brokers")
        await carry_out(admin, targets, timeout_s, throttle)
        await asyncio.sleep(LOOK_EVERY_S)
    else:
        raise ErrorCode.REQUEST_TIMED_OUT.error(
            f"broker {broker_id} still has replicas of {len(targets)} partitions, such as {min(targets)}: their moves "
            "were cancelled or changed; see replog partition list-reassignments, and run this again"
        )


async def targets_without(admin: Admin, broker_id: int) -> Assignment:
    """Return new replicas for each partition on this broker; some may be on the way there already."""
    topics = await admin.describe_topics()
    brokers = (await admin.describe_cluster()).brokers
    targets = assignment_of(topics, brokers, broker_id)
    targets |= Planner(targets, brokers).leave([broker_id])
    held = [(topic.topic, p.partition) for topic in topics for p in topic.partitions if broker_id in p.replicas]
    return {tp: targets[tp] for tp in (TopicPartition(*each) for each in held)}


async def forget_when_stopped(admin: Admin, broker_id: int, timeout_s: float, say: Callable[[str], None]) -> None:
    """Ask the controller until it forgets the broker. Only it knows that no replica is left: this user may not be
    allowed to describe every topic."""
    deadline, asked = asyncio.get_running_loop().time() + timeout_s, False
    while True:
        try:
            return await admin.unregister_broker(broker_id)
        except ReplogError as error:
            if error.code is not ErrorCode.INVALID_REQUEST:  # says that the broker is unfenced
                raise
        if not asked:
            say(f"broker {broker_id} has no replicas any more; stop its process now, and for good")
            asked = True
        if asyncio.get_running_loop().time() > deadline:
            raise ErrorCode.REQUEST_TIMED_OUT.error(
                f"broker {broker_id} has no replicas, but runs; stop it, then: replog broker forget {broker_id}"
            )
        await asyncio.sleep(LOOK_EVERY_S)
