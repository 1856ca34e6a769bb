"""Faults of a disk: it is full, frozen, failing, without power, or empty."""

import asyncio
import random
from collections.abc import Sequence

from replog.chaos.deck import Deed, fault
from replog.chaos.world import BROKERS, CONTROLLER, ChaosWorld


@fault("fill a disk", on_a_volume=True)
async def fill(world: ChaosWorld, rng: random.Random) -> str:
    broker, seconds = rng.choice(BROKERS), world.hold(rng)
    world.may_end.add(broker)
    await asyncio.to_thread(world.volumes[broker].fill)
    await asyncio.sleep(seconds)
    return f"{broker}'s disk full for {seconds:.1f} s"


def _frozen(names: Sequence[str]) -> Deed:
    """Freeze the disk of one of these processes."""

    async def deed(world: ChaosWorld, rng: random.Random) -> str:
        name, seconds = rng.choice(names), world.hold(rng)
        await asyncio.to_thread(world.volumes[name].freeze)
        try:
            await asyncio.sleep(seconds)
        finally:
            world.volumes[name].thaw()
        return f"{name}'s disk frozen for {seconds:.1f} s"

    return deed


fault("freeze a disk", on_a_volume=True)(_frozen(BROKERS))
fault("freeze the controller's disk", on_a_volume=True)(_frozen([CONTROLLER]))


@fault("make a disk fail", on_a_volume=True)
async def fail(world: ChaosWorld, rng: random.Random) -> str:
    """A disk fails; it comes back with what was flushed, and its broker starts again."""
    broker, seconds = rng.choice(BROKERS), world.hold(rng)
    world.may_end.add(broker)
    await asyncio.to_thread(world.volumes[broker].break_down)
    await asyncio.sleep(seconds)
    await _lost(world, broker)
    return f"{broker}'s disk failed, replaced {seconds:.1f} s later"


@fault("take a broker's power", on_a_volume=True)
async def lose_power(world: ChaosWorld, rng: random.Random) -> str:
    broker, seconds = rng.choice(BROKERS), world.hold(rng)
    await asyncio.to_thread(world.volumes[broker].break_down)
    await _lost(world, broker)
    await asyncio.sleep(seconds)
    return f"{broker} without power for {seconds:.1f} s"


async def _lost(world: ChaosWorld, broker: str) -> None:
    """Lose the process, and what it had not flushed."""
    await asyncio.to_thread(world.kill, broker)
    await asyncio.to_thread(world.volumes[broker].remount)


@fault("a disk comes back empty", on_a_volume=True, alone=True)
async def come_back_empty(world: ChaosWorld, rng: random.Random) -> str:
    """One broker or all are killed, and one comes back with an empty disk; the others have what was acknowledged."""
    victims = rng.sample(BROKERS, rng.choice((1, len(BROKERS))))
    seconds = world.hold(rng)
    for name in victims:
        await asyncio.to_thread(world.kill, name)
    await asyncio.sleep(seconds)
    emptied = rng.choice(victims)
    await asyncio.to_thread(world.empty, emptied)
    return f"{', '.join(victims)} killed for {seconds:.1f} s, {emptied} came back empty"
