"""Faults of processes: killed, paused, restarted."""

import asyncio
import random

from replog.chaos.client import ASSIGNED
from replog.chaos.deck import fault
from replog.chaos.world import BROKERS, CONTROLLER, ChaosWorld


@fault("kill a broker")
async def kill(world: ChaosWorld, chance: random.Random) -> str:
    broker, down_s = await world.leader(chance.choice(ASSIGNED)) or BROKERS[0], world.hold(chance)
    await asyncio.to_thread(world.kill, broker)
    await asyncio.sleep(down_s)
    return f"{broker} killed, down for {down_s:.1f} s"


@fault("kill two brokers")
async def kill_two(world: ChaosWorld, chance: random.Random) -> str:
    first, second = chance.sample(BROKERS, 2)
    between_s, down_s = chance.uniform(0.0, 2.0), world.hold(chance)
    await asyncio.to_thread(world.kill, first)
    await asyncio.sleep(between_s)
    await asyncio.to_thread(world.kill, second)
    await asyncio.sleep(down_s)
    return f"{first} and, {between_s:.1f} s later, {second} killed, down for {down_s:.1f} s"


@fault("kill a broker that recovers", alone=True)
async def kill_again(world: ChaosWorld, chance: random.Random) -> str:
    broker, after_s = chance.choice(BROKERS), chance.uniform(0.2, 1.5)
    await asyncio.to_thread(world.kill, broker)
    world.launch(broker)
    await asyncio.sleep(after_s)
    await asyncio.to_thread(world.kill, broker)
    return f"{broker} killed, and again {after_s:.1f} s after its start"


@fault("kill the controller")
async def kill_controller(world: ChaosWorld, chance: random.Random) -> str:
    down_s = world.hold(chance)
    await asyncio.to_thread(world.kill, CONTROLLER)
    await asyncio.sleep(down_s)
    return f"controller killed, down for {down_s:.1f} s"


@fault("kill the controller and a broker")
async def kill_controller_and_broker(world: ChaosWorld, chance: random.Random) -> str:
    broker, between_s = chance.choice(BROKERS), chance.uniform(0.0, 1.0)
    await asyncio.to_thread(world.kill, CONTROLLER)
    await asyncio.sleep(between_s)
    await asyncio.to_thread(world.kill, broker)
    return f"controller and, {between_s:.1f} s later, {broker} killed"


@fault("pause a broker")
async def pause(world: ChaosWorld, chance: random.Random) -> str:
    broker, seconds = await world.leader(chance.choice(ASSIGNED)) or BROKERS[0], world.hold(chance)
    world.pause(broker)
    await asyncio.sleep(seconds)
    return f"{broker} paused for {seconds:.1f} s"


@fault("pause two brokers")
async def pause_two(world: ChaosWorld, chance: random.Random) -> str:
    first, second = chance.sample(BROKERS, 2)
    between_s, seconds = chance.uniform(0.1, 1.0), world.hold(chance)
    world.pause(first)
    await asyncio.sleep(between_s)
    world.pause(second)
    await asyncio.sleep(seconds)
    return f"{first} and, {between_s:.1f} s later, {second} paused for {seconds:.1f} s"


@fault("pause the controller")
async def pause_controller(world: ChaosWorld, chance: random.Random) -> str:
    seconds = world.hold(chance)
    world.pause(CONTROLLER)
    await asyncio.sleep(seconds)
    return f"controller paused for {seconds:.1f} s"


async def _restart(world: ChaosWorld, name: str) -> None:
    world.ask_to_stop(name)
    await world.stopped(name)
    world.launch(name)


@fault("restart a broker", alone=True)
async def restart(world: ChaosWorld, chance: random.Random) -> str:
    broker = chance.choice(BROKERS)
    await _restart(world, broker)
    return f"{broker} stopped in order and started"


@fault("restart all brokers in turn", alone=True)
async def rolling_restart(world: ChaosWorld, chance: random.Random) -> str:
    order = chance.sample(BROKERS, len(BROKERS))
    for broker in order:
        await _restart(world, broker)
        await world.wait_until_in_sync()
    return f"{', '.join(order)} restarted in turn"


@fault("kill a broker beside one that stops", alone=True)
async def stop_and_kill(world: ChaosWorld, chance: random.Random) -> str:
    stops, killed = chance.sample(BROKERS, 2)
    world.ask_to_stop(stops)
    await asyncio.to_thread(world.kill, killed)
    await world.stopped(stops)
    return f"{stops} asked to stop, {killed} killed meanwhile"
