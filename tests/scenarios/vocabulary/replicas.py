"""What leaders and followers do and know, by the names that a line gives them."""

import re

from leader.follower_state import NEVER_MS, FollowerState
from leader.partition_leader import PartitionLeader
from replog.errors import ReplogError
from replog.server.authorizer import everything
from replog.server.broker.clients.produce import Produce
from replog.topic import TopicPartition
from tests.leader.replicas import NOW_MS, bytes_of, record
from tests.replog.log.batches import client_batch
from tests.scenarios.broker import Broker
from tests.scenarios.events import event
from tests.scenarios.language import ScenarioError
from tests.scenarios.notation import named, partition_of
from tests.scenarios.world import World


def replica_of(world: World, name: str) -> tuple[Broker, TopicPartition]:
    broker_id, letter = re.fullmatch(r"(\d+)([a-z]?)", name).groups()
    broker, tp = world.broker(int(broker_id)), partition_of(letter)
    if tp not in broker.hosted:
        raise ScenarioError(f"{name} has no log; write `{name}: 1:0-9` above, or `{name}: ∅`")
    return broker, tp


def leader_of(world: World, name: str) -> tuple[Broker, TopicPartition, PartitionLeader]:
    broker, tp = replica_of(world, name)
    leader = broker.hosted[tp].leader
    if leader is None:
        raise ScenarioError(f"{name} does not lead")
    return broker, tp, leader


def checked_fate(of_an_answer: str) -> str:
    if of_an_answer not in ("", "lost", "late"):
        raise ScenarioError(f"an answer is lost or late, not {of_an_answer}")
    return of_an_answer


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


@event("REPLICA appends N")
@event("REPLICA appends N of N bytes")
def appends(world: World, name: str, count: str, size: str = "0") -> None:
    broker, tp, leader = leader_of(world, name)
    for _ in range(int(count)):
        batch = record(leader.leader_epoch, leader.log.log_end_offset, int(size))
        appended = leader.append_records_to_leader(batch, acks=1, wall_ms=0, now_ms=world.clock.monotonic_ms())
        broker.touched(tp, appended.high_watermark_advanced)


@event("produce to REPLICAS", "acks", "as", "records", "producer", "sequence")
def produces(world: World, names: str, **options: str) -> None:
    label = options.get("as", "produce")
    entries = []
    for name in names.split():
        broker_id, letter = re.fullmatch(r"(\d+)([a-z]?)", name).groups()
        broker, tp = world.broker(int(broker_id)), partition_of(letter)
        values = [f"{world.produced}:{i}".encode() for i in range(int(options.get("records", 1)))]
        sequence = {"producer_id": int(options["producer"]), "producer_epoch": 0} if "producer" in options else {}
        if sequence:
            broker.image.next_producer_id = 1000  # it was given its id
            values = [b"same"] * len(values)
            sequence["base_sequence"] = int(options.get("sequence", 0))
        world.produced += 1
        entries.append((tp, client_batch(*values, **sequence)))
    answered: list[bool] = []

    def respond(produced: Produce) -> None:
        answered.append(True)
        shown = [
            f"{letter_of(r.topic_partition)}{r.error.code.name if r.error else f'offset {r.base_offset}'}"
            for r in produced.results
        ]
        world.say(f"{label}: {', '.join(shown)}")

    def letter_of(tp: TopicPartition) -> str:
        return f"{named('', tp)} " if len(entries) > 1 else ""

    acks = {"all": -1}.get(options.get("acks", "all"), options.get("acks", "all"))
    produce = Produce(broker, int(acks), 30_000, respond)
    list(produce.append_records(entries, everything))
    if not answered:
        world.say(f"{label}: waits")


@event("REPLICA rolls")
def rolls(world: World, name: str) -> None:
    broker, tp = replica_of(world, name)
    broker.hosted[tp].log.roll()


@event("REPLICA is cut to N")
def cut(world: World, name: str, offset: str) -> None:
    broker, tp = replica_of(world, name)
    broker.hosted[tp].log.truncate_to(int(offset))
    broker.touched(tp, high_watermark_advanced=False)


@event("REPLICA deletes records up to N")
def deletes(world: World, name: str, offset: str) -> None:
    _, _, leader = leader_of(world, name)
    try:
        leader.delete_records(int(offset))
    except ReplogError as error:
        world.say(error.code.name)


@event("low watermark of REPLICA")
def low_watermark(world: World, name: str) -> None:
    _, _, leader = leader_of(world, name)
    world.say(str(leader.low_watermark()))


@event("REPLICA loses its epoch cache")
def loses_cache(world: World, name: str) -> None:
    broker, tp = replica_of(world, name)
    broker.hosted[tp].log.epochs.clear()


@event("REPLICA knows N at TEXT, caught up TEXT")
def knows(world: World, name: str, follower_id: str, offset: str, caught_up: str) -> None:
    """Put into the leader's memory what it would know of a follower after many fetches."""
    _, _, leader = leader_of(world, name)
    age = re.fullmatch(r"(\d+) ms ago", caught_up)
    if age is None and caught_up != "never":
        raise ScenarioError(f"{caught_up!r} is no time; write `caught up 1000 ms ago`, or `caught up never`")
    if int(follower_id) not in leader.replicas:
        raise ScenarioError(f"{follower_id} is no replica of {name}")
    leader.replicas[int(follower_id)] = FollowerState(
        log_end_offset=-1 if offset == "?" else int(offset),
        last_caught_up_ms=world.clock.monotonic_ms() - int(age[1]) if age else NEVER_MS,
        broker_epoch=world.controller.image.brokers[int(follower_id)].broker_epoch,
    )


@event("followers of REPLICA")
def followers(world: World, name: str) -> None:
    broker, _, leader = leader_of(world, name)
    now_ms, end = world.clock.monotonic_ms(), leader.log.log_end_offset
    for follower_id, follower in leader.replicas.items():
        at = "?" if follower.log_end_offset < 0 else follower.log_end_offset
        time_ms = follower.caught_up_ms
        caught_up = "never caught up" if time_ms == NEVER_MS else f"caught up at {time_ms - NOW_MS}"
        in_time = follower.is_caught_up(end, now_ms, broker.config.replica_lag_time_max_ms)
        world.say(f"{follower_id} at {at}, {caught_up}: {'in time' if in_time else 'too late'}")


@event("REPLICA checks its isr")
def checks_isr(world: World, name: str) -> None:
    broker, _, _ = leader_of(world, name)
    broker.check_isrs()


@event("BROKER looks whom it hears")
def looks_whom_it_hears(world: World, broker_id: str) -> None:
    """The controller speaks every second to whom it reaches."""
    broker = world.broker(int(broker_id))
    if broker.hears_metadata:
        broker.failure_detector.controller_ms = world.clock.monotonic_ms()
    broker.resign_where_unheard()
