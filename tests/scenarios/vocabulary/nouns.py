"""What there is: settings, logs, registrations, the controller's partitions, the time."""

import re
from dataclasses import replace

from replog.metadata import NO_LEADER, PartitionState
from tests.scenarios.events import event
from tests.scenarios.language import ScenarioError
from tests.scenarios.notation import partition_of
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


_FIELDS = ("replicas", "isr", "leader", "epoch", "p", "elr", "last-known", "adding", "removing", "recovering")


@event("controllerPARTITION: TEXT")
def partition(world: World, letter: str, text: str) -> None:
    tp = partition_of(letter.strip())
    fields: dict[str, list[str]] = {}
    for word in text.split():
        if word in _FIELDS:
            values = fields.setdefault(word, [])
        elif not fields or not re.fullmatch(r"\d+|none|∅", word):
            raise ScenarioError(f"{word!r} is nothing a partition has; fields are {', '.join(_FIELDS)}")
        else:
            values.append(word)

    def ids(name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(int(word) for word in fields[name] if word != "∅") if name in fields else default

    def one(name: str, default: int) -> int:
        return NO_LEADER if fields.get(name) == ["none"] else int(fields[name][0]) if name in fields else default

    hosts = tuple(sorted(broker.id for broker in world.brokers.values() if tp in broker.hosted))
    old = world.controller.image.partitions.get(tp)
    replicas = ids("replicas", old.replicas if old else hosts)
    for broker_id in replicas:
        world.broker(broker_id)
    state = PartitionState(
        replicas=replicas,
        isr=ids("isr", old.isr if old else replicas),
        leader=one("leader", old.leader if old else replicas[0]),
        leader_epoch=one("epoch", old.leader_epoch if old else 0),
        partition_epoch=one("p", old.partition_epoch + 1 if old else 0),
        elr=ids("elr", ()),
        last_known_leader=one("last-known", NO_LEADER),
        recovering="recovering" in fields,
        adding=ids("adding", ()),
        removing=ids("removing", ()),
    )
    world.put_partition(tp, state)


@event("at N")
def at(world: World, now: str) -> None:
    world.advance(int(now))


@event("after N")
def after(world: World, passed: str) -> None:
    world.advance(world.clock.now_ms + int(passed))
