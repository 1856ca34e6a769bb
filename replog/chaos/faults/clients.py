"""Faults of clients: killed in mid-stream, paused."""

import asyncio
import random

from replog.chaos.deck import fault
from replog.chaos.world import CLIENTS, ChaosWorld


@fault("kill a client")
async def kill_client(world: ChaosWorld, chance: random.Random) -> str:
    """A new one begins a life of its own."""
    client = chance.choice(CLIENTS)
    await asyncio.to_thread(world.kill, client)
    return f"{client} killed in mid-stream"


@fault("pause a client")
async def pause_client(world: ChaosWorld, chance: random.Random) -> str:
    client, seconds = chance.choice(CLIENTS), world.hold(chance)
    world.pause(client)
    await asyncio.sleep(seconds)
    return f"{client} paused for {seconds:.1f} s"
