"""What followers do."""

from tests.leader.replicas import NOW_MS, bytes_of
from tests.scenarios.events import event
from tests.scenarios.language import ScenarioError
from tests.scenarios.vocabulary.names import checked_fate, leader_of, replica_of
from tests.scenarios.world import World


@event("REPLICA fetches")
@event("REPLICA fetches, but the answer is NAME")
def fetches(world: World, name: str, fate: str = "") -> None:
    world.fetch(*replica_of(world, name), checked_fate(fate))


@event("REPLICA gets the late answer")
def late(world: World, name: str) -> None:
    broker, tp = replica_of(world, name)
    if broker.id not in world.late.get(tp, {}):
        raise ScenarioError(f"no answer to {name} is late")
    world.take(broker, tp, *world.late[tp].pop(broker.id))


@event("REPLICA catches up")
def catches_up(world: World, name: str) -> None:
    """Fetch until it has all that its leader has, and knows the high watermark; then both logs are compared."""
    broker, tp = replica_of(world, name)
    for _ in range(50):
        if not world.fetch(broker, tp):
            world.advance(world.clock.now_ms + 500)
        world.settle()
        follower = broker.hosted[tp].follower
        own, leaders = broker.hosted[tp].log, world.brokers[follower.leader_id].hosted[tp].log
        if own.log_end_offset == leaders.log_end_offset and own.high_watermark == leaders.high_watermark:
            break
        world.advance(max(world.clock.now_ms, (follower.next_retry_ms or 0) - NOW_MS))
    rounds = world.said()
    start = max(own.log_start_offset, leaders.log_start_offset)
    if bytes_of(own, start) != bytes_of(leaders, start):
        raise ScenarioError(f"{name} does not become like its leader:\n  " + "\n  ".join(rounds))


@event("REPLICA pushes its hw to BROKER")
def pushes(world: World, name: str, to: str) -> None:
    _, tp, leader = leader_of(world, name)
    follower = world.broker(int(to)).hosted[tp].follower
    if follower.on_high_watermark(leader.leader_epoch, leader.log.high_watermark):
        world.broker(int(to)).touched(tp, high_watermark_advanced=True)
