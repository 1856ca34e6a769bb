"""Faults of a broker's disk: full, frozen, failing, without power."""

import asyncio
import random

from cluster.chaos.deck import fault
from cluster.chaos.world import BROKERS, CONTROLLER, World


@fault("fill a disk", on_a_volume=True)
async def fill(world: World, chance: random.Random) -> str:
    broker, seconds = chance.choice(BROKERS), world.hold(chance)
    world.may_end.add(broker)
    await asyncio.to_thread(world.volumes[broker].fill)
    await asyncio.sleep(seconds)
    return f"{broker}'s disk full for {seconds:.1f} s"


@fault("freeze a disk", on_a_volume=True)
async def freeze(world: World, chance: random.Random) -> str:
    return await _freeze(world, chance, chance.choice(BROKERS))


@fault("freeze the controller's disk", on_a_volume=True)
async def freeze_controller(world: World, chance: random.Random) -> str:
    return await _freeze(world, chance, CONTROLLER)


async def _freeze(world: World, chance: random.Random, name: str) -> str:
    seconds = world.hold(chance)
    await asyncio.to_thread(world.volumes[name].freeze)
    try:
        await asyncio.sleep(seconds)
    finally:
        world.volumes[name].thaw()
    return f"{name}'s disk frozen for {seconds:.1f} s"


@fault("make a disk fail", on_a_volume=True)
async def fail(world: World, chance: random.Random) -> str:
    """It comes back as what was flushed of it, with a broker that starts again."""
    broker, seconds = chance.choice(BROKERS), world.hold(chance)
    world.may_end.add(broker)
    await asyncio.to_thread(world.volumes[broker].break_down)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(world.kill, broker)
    await asyncio.to_thread(world.volumes[broker].remount)
    return f"{broker}'s disk failed, replaced {seconds:.1f} s later"


@fault("take a broker's power", on_a_volume=True)
async def lose_power(world: World, chance: random.Random) -> str:
    broker, seconds = chance.choice(BROKERS), world.hold(chance)
    await asyncio.to_thread(world.volumes[broker].break_down)
    await asyncio.to_thread(world.kill, broker)
    await asyncio.to_thread(world.volumes[broker].remount)
    await asyncio.sleep(seconds)
    return f"{broker} without power for {seconds:.1f} s"
