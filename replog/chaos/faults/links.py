"""Faults of the network: links are cut, silently or with resets, in one or both directions; slow, lossy, narrow."""

import asyncio
import random
from collections.abc import Iterable

from replog.chaos.client import ASSIGNED
from replog.chaos.faults import Action, fault
from replog.chaos.network import Ends, both_ways
from replog.chaos.switch import Rule
from replog.chaos.world import BROKERS, BYSTANDER, CLIENTS, CONTROLLER, MACHINES, SERVERS, ChaosWorld

SILENT, REFUSED = Rule(cut=True), Rule(cut=True, reset=True)


async def _hold(world: ChaosWorld, rng: random.Random, links: Iterable[Ends], rule: Rule, story: str) -> str:
    world.network.order(links, rule)
    return await world.lasting(rng, story)


async def _a_leader(world: ChaosWorld, rng: random.Random) -> str:
    return await world.leader(rng.choice(ASSIGNED)) or rng.choice(BROKERS)


def _between_two(rule: Rule, story: str) -> Action:
    """Apply a rule to the link of two servers, in both directions."""

    async def action(world: ChaosWorld, rng: random.Random) -> str:
        a, b = rng.sample(SERVERS, 2)
        return await _hold(world, rng, both_ways([a], [b]), rule, story.format(a, b))

    return action


def _apart_from(others: Iterable[str], rule: Rule, story: str) -> Action:
    """Apply a rule to a leader's links to these machines, in both directions."""

    async def action(world: ChaosWorld, rng: random.Random) -> str:
        broker = await _a_leader(world, rng)
        return await _hold(world, rng, both_ways([broker], others), rule, story.format(broker))

    return action


fault("cut a link")(_between_two(SILENT, "nothing between {} and {}"))


@fault("cut one direction of a link")
async def cut_one_way(world: ChaosWorld, rng: random.Random) -> str:
    a, b = rng.sample(SERVERS, 2)
    return await _hold(world, rng, [(a, b)], SILENT, f"nothing from {a} to {b}")


fault("cut a link with resets")(_between_two(REFUSED, "resets between {} and {}"))
fault("isolate a broker")(_apart_from(MACHINES, SILENT, "nobody hears {}"))
fault("isolate a broker with resets")(_apart_from(MACHINES, REFUSED, "{} gets resets only"))


@fault("isolate a broker in one direction")
async def isolate_one_way(world: ChaosWorld, rng: random.Random) -> str:
    broker = await _a_leader(world, rng)
    others = [name for name in MACHINES if name != broker]
    if rng.random() < 0.5:
        return await _hold(world, rng, [(broker, o) for o in others], SILENT, f"{broker} hears, and is not heard")
    return await _hold(world, rng, [(o, broker) for o in others], SILENT, f"{broker} is heard, and hears nobody")


fault("isolate a broker from the controller")(_apart_from([CONTROLLER], SILENT, "{} without the controller"))
fault("isolate a leader from its followers")(_apart_from(BROKERS, SILENT, "{} without the other brokers"))


@fault("isolate the controller")
async def isolate_controller(world: ChaosWorld, rng: random.Random) -> str:
    return await _hold(world, rng, both_ways([CONTROLLER], MACHINES), SILENT, "nobody hears the controller")


@fault("split the brokers")
async def split(world: ChaosWorld, rng: random.Random) -> str:
    alone, *others = rng.sample(BROKERS, 3)
    side = rng.choice(["the one", "the two"])
    links = both_ways([alone], others)
    links += both_ways([CONTROLLER], others if side == "the one" else [alone])
    return await _hold(world, rng, links, SILENT, f"{alone} apart from the others, the controller with {side}")


@fault("a leader dies beside one without the controller")
async def bystander(world: ChaosWorld, rng: random.Random) -> str:
    """A leader dies while a broker without the controller still answers clients, which ask it first."""
    victim = await _a_leader(world, rng)
    world.network.order(both_ways([BYSTANDER], [CONTROLLER]), SILENT)
    await asyncio.to_thread(world.kill, victim)
    return await world.lasting(rng, f"{victim} killed while {BYSTANDER} was without the controller")


@fault("cut a client from a broker")
async def cut_client(world: ChaosWorld, rng: random.Random) -> str:
    client, broker = rng.choice(CLIENTS), rng.choice(BROKERS)
    return await _hold(world, rng, both_ways([client], [broker]), SILENT, f"nothing between {client} and {broker}")


@fault("cut a client off")
async def isolate_client(world: ChaosWorld, rng: random.Random) -> str:
    client, rule = rng.choice(CLIENTS), rng.choice([SILENT, REFUSED])
    return await _hold(world, rng, both_ways([client], SERVERS), rule, f"{client} without any broker")


@fault("slow a broker's links")
async def slow(world: ChaosWorld, rng: random.Random) -> str:
    broker, delay_s = rng.choice(SERVERS), rng.uniform(0.02, 0.4)
    rule = Rule(delay_s=delay_s, jitter_s=delay_s)
    return await _hold(world, rng, both_ways([broker], MACHINES), rule, f"{broker} {delay_s * 1000:.0f} ms away")


@fault("lose frames of a broker")
async def lossy(world: ChaosWorld, rng: random.Random) -> str:
    broker, share = rng.choice(SERVERS), rng.uniform(0.02, 0.3)
    story = f"{share:.0%} of what {broker} says and hears is lost"
    return await _hold(world, rng, both_ways([broker], MACHINES), Rule(loss=share), story)


@fault("narrow a broker's links")
async def narrow(world: ChaosWorld, rng: random.Random) -> str:
    broker, rate = rng.choice(BROKERS), rng.uniform(5_000, 100_000)
    story = f"{rate / 1000:.0f} kB/s from and to {broker} on each link"
    return await _hold(world, rng, both_ways([broker], MACHINES), Rule(bytes_per_s=rate), story)
