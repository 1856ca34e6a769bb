"""Faults of clients: they are killed in mid-stream, paused, or read no answers."""

import asyncio
import random

from replog.chaos.deck import fault
from replog.chaos.world import BROKERS, CLIENTS, METRICS_PORT, PORT, ChaosWorld

MORE_MIB = 300  # the most memory that readers who do not read may cost a broker


@fault("kill a client")
async def kill_client(world: ChaosWorld, rng: random.Random) -> str:
    """A client is killed; the run then starts another, with other records."""
    client = rng.choice(CLIENTS)
    await asyncio.to_thread(world.kill, client)
    return f"{client} killed in mid-stream"


@fault("pause a client")
async def pause_client(world: ChaosWorld, rng: random.Random) -> str:
    client, seconds = rng.choice(CLIENTS), world.hold(rng)
    world.pause(client)
    await asyncio.sleep(seconds)
    return f"{client} paused for {seconds:.1f} s"


@fault("ask, and read no answer", alone=True)
async def ask_and_not_read(world: ChaosWorld, rng: random.Random) -> str:
    """A client asks a broker and its metrics, and reads no answer; the broker must not keep them all."""
    client, broker, seconds = rng.choice(CLIENTS), rng.choice(BROKERS), world.hold(rng)
    before = world.resident_mib(broker)
    where = [world.network.address(broker), str(PORT), str(METRICS_PORT)]
    world.begin("silent", world.network.enter(client), ["replog.chaos.silent", *where])
    await asyncio.sleep(seconds)
    more = world.resident_mib(broker) - before
    await asyncio.to_thread(world.kill, "silent")
    assert more < MORE_MIB, f"{broker} took {more:.0f} MiB more for readers that do not read"
    return f"{client} asked {broker} for {seconds:.1f} s and read no answer, for {more:.0f} MiB"
