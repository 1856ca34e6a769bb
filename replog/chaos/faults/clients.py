"""Faults of clients: they are killed in mid-stream, paused, or read no answers; commands are killed in the middle and
run again, and nothing may be left behind."""

import asyncio
import itertools
import random

from replog.chaos.faults import fault
from replog.chaos.world import BROKERS, BYSTANDER, CLIENTS, METRICS_PORT, PORT, ChaosWorld
from replog.client import Admin

MORE_MIB = 300  # the most memory that readers who do not read may cost a broker
NUMBERS = itertools.count(1)
LINES = b"".join(b"line %d %s\n" % (number, b"." * 400) for number in range(20_000))
SLOW = "200000"  # bytes a second, so that the move lasts longer than its command


@fault("kill a client")
async def kill_client(world: ChaosWorld, rng: random.Random) -> str:
    """A client is killed; the run then starts another, with other records."""
    client = rng.choice(CLIENTS)
    await asyncio.to_thread(world.kill, client)
    return f"{client} killed in mid-stream"


@fault("pause a client")
async def pause_client(world: ChaosWorld, rng: random.Random) -> str:
    client = rng.choice(CLIENTS)
    world.pause(client)
    return await world.lasting(rng, f"{client} paused")


@fault("ask, and read no answer", alone=True)
async def ask_and_not_read(world: ChaosWorld, rng: random.Random) -> str:
    """A client asks a broker and its metrics, and reads no answer; the broker must not keep them all."""
    client, broker = rng.choice(CLIENTS), rng.choice(BROKERS)
    before = world.resident_mib(broker)
    where = [world.network.address(broker), str(PORT), str(METRICS_PORT)]
    world.begin("silent", world.network.enter(client), ["replog.chaos.silent", *where])
    story = await world.lasting(rng, f"{client} asked {broker} and read no answer")
    more = world.resident_mib(broker) - before
    await asyncio.to_thread(world.kill, "silent")
    assert more < MORE_MIB, f"{broker} took {more:.0f} MiB more for readers that do not read"
    return f"{story}, for {more:.0f} MiB"


async def _killed(world: ChaosWorld, rng: random.Random, *arguments: str, stdin: bytes = b"") -> str:
    """Start the command and kill it after a while, maybe before it has done anything, or after its end."""
    after_s = rng.uniform(0.5, 6.0)
    world.command("killed", *arguments, stdin=stdin)
    await asyncio.sleep(after_s)
    await asyncio.to_thread(world.kill, "killed")
    return f"{' '.join(arguments[:2])} killed after {after_s:.1f} s"


async def _topic(world: ChaosWorld) -> str:
    name = f"killed.{next(NUMBERS)}"
    async with Admin(world.bootstrap, timeout_ms=60_000) as admin:
        await admin.create_topic(name, assignment=[(1, 2, 3)])
    return name


@fault("kill a command that makes a topic", alone=True)
async def make_topic(world: ChaosWorld, rng: random.Random) -> str:
    name = f"killed.{next(NUMBERS)}"
    make = ("topic", "create", "--topic", name, "--partitions", "20", "--replication-factor", "3")
    story = await _killed(world, rng, *make)
    await world.commanded(*make, "--if-not-exists")
    await world.commanded("topic", "delete", "--topic", name)
    return story


@fault("kill a command that writes", alone=True)
async def write(world: ChaosWorld, rng: random.Random) -> str:
    name = await _topic(world)
    produce = ("produce", "--topic", name)
    story = await _killed(world, rng, *produce, stdin=LINES)
    await world.commanded(*produce, stdin=LINES)
    await world.commanded("topic", "delete", "--topic", name)
    return story


@fault("kill a command that moves a partition", alone=True)
async def move(world: ChaosWorld, rng: random.Random) -> str:
    name = await _topic(world)
    await world.commanded("produce", "--topic", name, stdin=LINES)
    to = ("partition", "reassign", "--topic", name, "--partition", "0", "--replicas", "2,3,4", "--wait")
    story = await _killed(world, rng, *to, "--throttle", SLOW)
    await world.commanded(*to)
    await world.no_move_is_left()
    await world.commanded("topic", "delete", "--topic", name)
    return story


@fault("kill a command that empties a broker", alone=True)
async def decommission(world: ChaosWorld, rng: random.Random) -> str:
    """A decommissioning is killed, then another; then it is cancelled, and the broker stays."""
    empty = ("broker", "decommission", BYSTANDER[-1])
    story = await _killed(world, rng, *empty, "--throttle", SLOW)
    await _killed(world, rng, *empty)
    await world.commanded(*empty, "--cancel")
    await world.no_move_is_left()
    return f"{story}, and once more"
