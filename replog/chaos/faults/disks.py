"""Faults of a disk: it is full, frozen, failing, without power, or empty."""

import asyncio
import random
from collections.abc import Sequence

from replog.chaos.faults import Action, fault
from replog.chaos.world import BROKERS, CONTROLLER, ChaosWorld


@fault("fill a disk", on_a_volume=True)
async def fill(world: ChaosWorld, rng: random.Random) -> str:
    broker = rng.choice(BROKERS)
    world.may_end.add(broker)
    await asyncio.to_thread(world.volumes[broker].fill)
    return await world.lasting(rng, f"{broker}'s disk full")


def _frozen(names: Sequence[str]) -> Action:
    """Freeze the disk of one of these processes."""

    async def action(world: ChaosWorld, rng: random.Random) -> str:
        name = rng.choice(names)
        await asyncio.to_thread(world.volumes[name].freeze)
        try:
            return await world.lasting(rng, f"{name}'s disk frozen")
        finally:
            world.volumes[name].thaw()

    return action


fault("freeze a disk", on_a_volume=True)(_frozen(BROKERS))
fault("freeze the controller's disk", on_a_volume=True)(_frozen([CONTROLLER]))


@fault("make a disk fail", on_a_volume=True)
async def fail(world: ChaosWorld, rng: random.Random) -> str:
    """A disk fails; it comes back with what was flushed, and its broker starts again."""
    broker = rng.choice(BROKERS)
    world.may_end.add(broker)
    await asyncio.to_thread(world.volumes[broker].break_down)
    story = await world.lasting(rng, f"{broker}'s disk failed")
    await _lost(world, broker)
    return story


@fault("take a broker's power", on_a_volume=True)
async def lose_power(world: ChaosWorld, rng: random.Random) -> str:
    broker = rng.choice(BROKERS)
    await asyncio.to_thread(world.volumes[broker].break_down)
    await _lost(world, broker)
    return await world.lasting(rng, f"{broker} without power")


async def _lost(world: ChaosWorld, broker: str) -> None:
    """Lose the process, and what it had not flushed."""
    await asyncio.to_thread(world.kill, broker)
    await asyncio.to_thread(world.volumes[broker].remount)


@fault("a disk comes back empty", on_a_volume=True, alone=True)
async def come_back_empty(world: ChaosWorld, rng: random.Random) -> str:
    """One broker or all are killed, and one comes back with an empty disk; the others have what was acknowledged."""
    victims = rng.sample(BROKERS, rng.choice((1, len(BROKERS))))
    for name in victims:
        await asyncio.to_thread(world.kill, name)
    story = await world.lasting(rng, f"{', '.join(victims)} killed")
    emptied = rng.choice(victims)
    await asyncio.to_thread(world.empty, emptied)
    return f"{story}, {emptied} came back empty"
