"""What there is: settings, logs, registrations, the controller's partitions, the time."""

import re
from dataclasses import replace

from tests.scenarios.events import event
from tests.scenarios.language import ScenarioError
from tests.scenarios.notation import parse_partition, partition_of
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
