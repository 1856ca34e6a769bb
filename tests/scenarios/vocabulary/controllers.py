"""What there is, such as settings, logs, partitions and the time; what the controller decides, and is told."""

import re
from dataclasses import replace

from leader.isr import IsrProposal
from replog.controller import broker_events
from replog.controller.broker_lifecycle import Heartbeat, HeartbeatAnswer
from replog.controller.elections import Election
from replog.controller.evidence import Report
from replog.controller.reassignments import Reassignment
from replog.controller.registration import Registration
from replog.controller.topics import NewTopic
from replog.errors import ErrorCode, ReplogError
from replog.metadata.log_ends import LogEnd
from replog.metadata.values import Claim
from tests.scenarios.events import event
from tests.scenarios.language import ScenarioError
from tests.scenarios.notation import TOPIC, parse_partition, partition_of
from tests.scenarios.vocabulary.replicas import checked_fate
from tests.scenarios.world import World


@event("set TEXT N")
def set_(world: World, name: str, value: str) -> None:
    field = name.replace(".", "_")
    known = [model for model in world.settings if field in model.model_fields]
    if not known:
        names = sorted({f.replace("_", ".") for model in world.settings for f in model.model_fields})
        raise ScenarioError(f"{name} is no setting; these are: {', '.join(names)}")
    world.change_setting(known, field, int(value))


@event("REPLICA: TEXT")
def log(world: World, name: str, text: str) -> None:
    broker_id, letter = re.fullmatch(r"(\d+)([a-z]?)", name).groups()
    world.add_log(int(broker_id), partition_of(letter), text)


@event("broker BROKER: TEXT")
def registration(world: World, broker_id: str, text: str) -> None:
    world.broker(int(broker_id))
    known = world.controller.image.brokers[int(broker_id)]
    for word in re.findall(r"in \w+|epoch \d+|\w+", text):
        if word in ("fenced", "unfenced"):
            known = replace(known, fenced=word == "fenced")
        elif word == "stopping":
            known = replace(known, in_controlled_shutdown=True)
        elif match := re.fullmatch(r"epoch (\d+)", word):
            known = replace(known, broker_epoch=int(match[1]))
        elif match := re.fullmatch(r"in (\w+)", word):
            known = replace(known, rack=match[1])
        else:
            raise ScenarioError(
                f"{word!r} is nothing a broker is; write `fenced`, `unfenced`, `stopping`, `epoch 44`, `in a`"
            )
    world.register(known)


@event("controllerPARTITION: TEXT")
def partition(world: World, letter: str, text: str) -> None:
    tp = partition_of(letter.strip())
    hosts = tuple(sorted(broker.id for broker in world.brokers.values() if tp in broker.hosted))
    state = parse_partition(text, world.controller.image.partitions.get(tp), hosts)
    for broker_id in state.replicas:
        world.broker(broker_id)
    world.put_partition(tp, state)


@event("at N")
def at(world: World, now: str) -> None:
    world.advance(int(now))


@event("after N")
def after(world: World, passed: str) -> None:
    world.advance(world.clock.now_ms + int(passed))


@event("controller answers BROKER")
@event("controller answers BROKER, but the answer is NAME")
def answers(world: World, broker_id: str, fate: str = "") -> None:
    world.alter_partition(world.broker(int(broker_id)), None, checked_fate(fate))


@event("controller answers BROKER with ERROR")
def refuses(world: World, broker_id: str, error: str) -> None:
    world.alter_partition(world.broker(int(broker_id)), ErrorCode[error])


@event("BROKER gets the controller's late answer")
def late_decision(world: World, broker_id: str) -> None:
    world.take_decisions(world.broker(int(broker_id)))


@event("the controller does not hear BROKER")
def request_lost(world: World, broker_id: str) -> None:
    broker = world.broker(int(broker_id))
    broker.proposals.on_failure()
    world.send_proposals(broker)


@event("fence BROKER")
def fence(world: World, broker_id: str) -> None:
    image = world.controller.image
    world.commit(broker_events.fence(image, world.rules, image.brokers[int(broker_id)]))


@event("unfence BROKER")
def unfence(world: World, broker_id: str) -> None:
    image = world.controller.image
    world.commit(broker_events.unfence(image, world.rules, image.brokers[int(broker_id)]))


@event("BROKER returns NAME")
def returns(world: World, broker_id: str, how: str) -> None:
    """A new process registers, after a stop that was clean or not or with an empty disk, hears all there is to hear,
    and is unfenced."""
    if how not in ("cleanly", "uncleanly", "empty"):
        raise ScenarioError(f"a broker returns cleanly, uncleanly or empty, not {how}")
    known = world.controller.image.brokers[int(broker_id)]
    world.incarnations += 1
    incarnation = world.incarnations.to_bytes(16, "big")
    previous = known.broker_epoch if how == "cleanly" else -1
    image, missing = world.controller.image, list[tuple[bytes, list[int]]]()
    for tp in image.index.on_broker(known.broker_id) if how == "empty" else ():
        missing.append((image.topics[tp.topic].topic_id, [tp.partition]))
    request = Registration(
        "", known.broker_id, incarnation, known.address, known.rack, previous, known.incarnation_id, missing=missing
    )
    world.commit(world.controller.register_broker(request, world.clock.monotonic_ms()).changes)
    _heartbeat(world, int(broker_id))


@event("BROKER has applied all metadata")
def has_applied(world: World, broker_id: str) -> None:
    _heartbeat(world, int(broker_id))


@event("BROKER has epoch N up to N")
def tells_its_log_end(world: World, broker_id: str, last_epoch: str, end: str) -> None:
    """In its next heartbeat, of the scenario's partition, which has no leader."""
    tp = partition_of("")
    image = world.controller.image
    topic_id, epoch = image.topics[tp.topic].topic_id, image.partitions[tp].leader_epoch
    _heartbeat(world, int(broker_id), Report(topic_id, tp.partition, epoch, LogEnd(int(last_epoch), int(end))))


@event("the controller looks for leaders")
def recovers(world: World) -> None:
    world.commit(world.controller.recover(world.clock.monotonic_ms()).changes)


@event("BROKER asks to stop")
def asks_to_stop(world: World, broker_id: str) -> None:
    stop = _heartbeat(world, int(broker_id), want_shutdown=True).should_shutdown
    world.say("stop" if stop else "not yet")


def _heartbeat(world: World, broker_id: int, *log_ends: Report, want_shutdown: bool = False) -> HeartbeatAnswer:
    image = world.controller.image
    known = image.brokers[broker_id]
    claim = Claim(broker_id, known.broker_epoch, known.incarnation_id)
    request = Heartbeat(claim, image.version, want_shutdown=want_shutdown, log_ends=log_ends)
    decision = world.controller.heartbeat(request, world.clock.monotonic_ms())
    world.commit(decision.changes)
    return decision.answer


@event("NAME election")
def elect(world: World, kind: str) -> None:
    decision = world.controller.elect_leaders(Election(kind), [partition_of("")])
    world.say(decision.answer[0].error.code.name)
    world.commit(decision.changes)


@event("reassign to BROKERS")
@event("cancel the reassignment")
def reassign(world: World, brokers: str | None = None) -> None:
    target = None if brokers is None else [int(broker_id) for broker_id in brokers.split()]
    for broker_id in target or ():
        world.broker(broker_id)
    decision = world.controller.alter_partition_reassignments([Reassignment(partition_of(""), target)])
    world.say(decision.answer[0].code.name)
    world.commit(decision.changes)


@event("create N partitions of N replicas")
def create(world: World, partitions: str, replicas: str) -> None:
    """The topic of the scenario, which must have no partition yet."""
    try:
        world.commit(world.controller.create_topic(NewTopic(TOPIC, int(partitions), int(replicas))).changes)
    except ReplogError as error:
        world.say(error.code.name)


@event("BROKER proposes isr BROKERS")
def proposes(world: World, broker_id: str, members: str) -> None:
    """The leader's part is not played here; the controller decides at once."""
    tp = partition_of("")
    state = world.controller.image.partitions[tp]
    item = IsrProposal(
        state.leader_epoch,
        state.partition_epoch,
        tuple((int(b), world.controller.image.brokers[int(b)].broker_epoch) for b in members.split()),
    )
    broker = world.broker(int(broker_id))
    broker.sent = {tp: item}
    world.alter_partition(broker, None)
