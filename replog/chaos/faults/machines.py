"""Faults of processes: they are killed, paused, restarted, or have a wrong clock."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

from replog.chaos.client import ASSIGNED
from replog.chaos.faults import Action, fault
from replog.chaos.world import BROKERS, CONTROLLER, ChaosWorld
from replog.client import Admin, ElectionType

LIBRARY = "faketime/libfaketimeMT.so.1"  # gives a process a wrong clock
FAKETIME = next((path for place in ("lib*", "lib*/*") for path in Path("/usr").glob(f"{place}/{LIBRARY}")), None)
NO_FAKETIME = "" if FAKETIME else "libfaketimeMT.so.1 of the faketime package is not installed"

Hurt = Callable[[ChaosWorld, str], None]


def _one(hurt: Hurt, name: str | None, story: str) -> Action:
    """Hurt this process, or, without a name, a broker that leads some partition."""

    async def action(world: ChaosWorld, rng: random.Random) -> str:
        victim = name or await world.leader(rng.choice(ASSIGNED)) or BROKERS[0]
        await asyncio.to_thread(hurt, world, victim)
        return await world.lasting(rng, f"{victim} {story}")

    return action


def _two(hurt: Hurt, between_s: tuple[float, float], story: str) -> Action:
    """Hurt two brokers, one soon after the other."""

    async def action(world: ChaosWorld, rng: random.Random) -> str:
        first, second = rng.sample(BROKERS, 2)
        later_s = rng.uniform(*between_s)
        await asyncio.to_thread(hurt, world, first)
        await asyncio.sleep(later_s)
        await asyncio.to_thread(hurt, world, second)
        return await world.lasting(rng, f"{first} and, {later_s:.1f} s later, {second} {story}")

    return action


fault("kill a broker")(_one(ChaosWorld.kill, None, "killed, down"))
fault("kill two brokers")(_two(ChaosWorld.kill, (0.0, 2.0), "killed, down"))


@fault("kill a broker that recovers", alone=True)
async def kill_again(world: ChaosWorld, rng: random.Random) -> str:
    broker, after_s = rng.choice(BROKERS), rng.uniform(0.2, 1.5)
    await asyncio.to_thread(world.kill, broker)
    world.launch(broker)
    await asyncio.sleep(after_s)
    await asyncio.to_thread(world.kill, broker)
    return f"{broker} killed, and again {after_s:.1f} s after its start"


fault("kill the controller")(_one(ChaosWorld.kill, CONTROLLER, "killed, down"))


@fault("kill the controller and a broker")
async def kill_controller_and_broker(world: ChaosWorld, rng: random.Random) -> str:
    broker, between_s = rng.choice(BROKERS), rng.uniform(0.0, 1.0)
    await asyncio.to_thread(world.kill, CONTROLLER)
    await asyncio.sleep(between_s)
    await asyncio.to_thread(world.kill, broker)
    return f"controller and, {between_s:.1f} s later, {broker} killed"


fault("pause a broker")(_one(ChaosWorld.pause, None, "paused"))
fault("pause two brokers")(_two(ChaosWorld.pause, (0.1, 1.0), "paused"))
fault("pause the controller")(_one(ChaosWorld.pause, CONTROLLER, "paused"))


async def _restart(world: ChaosWorld, name: str) -> None:
    world.ask_to_stop(name)
    await world.stopped(name)
    world.launch(name)


@fault("restart a broker", alone=True)
async def restart(world: ChaosWorld, rng: random.Random) -> str:
    broker = rng.choice(BROKERS)
    await _restart(world, broker)
    return f"{broker} stopped in order and started"


@fault("restart all brokers in turn", alone=True)
async def rolling_restart(world: ChaosWorld, rng: random.Random) -> str:
    order = rng.sample(BROKERS, len(BROKERS))
    for broker in order:
        await _restart(world, broker)
        await world.wait_until_in_sync()
    return f"{', '.join(order)} restarted in turn"


@fault("kill a broker beside one that stops", alone=True)
async def stop_and_kill(world: ChaosWorld, rng: random.Random) -> str:
    stops, killed = rng.sample(BROKERS, 2)
    world.ask_to_stop(stops)
    await asyncio.to_thread(world.kill, killed)
    await world.stopped(stops)
    return f"{stops} asked to stop, {killed} killed meanwhile"


async def wrong_clock(world: ChaosWorld, rng: random.Random) -> str:
    """A broker starts with a wrong clock, and soon leads. Acknowledged records must stay, however old they look."""
    broker, days = rng.choice(BROKERS), rng.choice(("+30d", "-30d"))
    assert FAKETIME is not None
    await asyncio.to_thread(world.kill, broker)
    lie = {"LD_PRELOAD": str(FAKETIME), "FAKETIME": days, "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}
    world.launch(broker, lie)
    await world.wait_until_in_sync()
    async with Admin(world.bootstrap, timeout_ms=60_000) as admin:
        await admin.elect_leaders(
            ElectionType.PREFERRED, [tp for tp in ASSIGNED if tp.partition == int(broker[-1]) - 1]
        )
    story = await world.lasting(rng, f"{broker}'s clock wrong by {days}")
    await asyncio.to_thread(world.kill, broker)
    return story


if FAKETIME:
    fault("set a clock wrong by a month", alone=True)(wrong_clock)
