"""Real etcds, controllers and brokers: what fails is never missed for long, and nobody decides beside another one."""

import asyncio
import time
from signal import SIGCONT, SIGKILL, SIGSTOP

import pytest

from replog.server.controller.active_controller import COME_AFTER_S
from tests.replog.processes.several_controllers import LEASE_S, TOPIC, World
from tests.replog.server.controller.etcds import etcd_or_skip

pytestmark = [
    pytest.mark.processes,
    pytest.mark.plaintext("it starts etcds, controllers and brokers itself, without certificates"),
]

SLACK_S = 1.0  # after the lease
BUSY_S = 2.0  # what a busy machine may add
ETCD_S = 3.0  # for an etcd to be elected, and as long as such an election takes at least, which it adds to each lease
SILENCE_S = 1.5  # of a leader that lives; this machine's processes share two cores


async def test_the_active_controller_the_leader_of_etcd_and_a_host_may_be_killed_paused_and_cut_off(tmp_path):
    program, took = etcd_or_skip(), {}
    async with World(program, tmp_path) as world:

        async def lost(what, hurt, mend):
            _, active = await world.next_active()
            begun = time.monotonic()
            await hurt(active)
            took[what], _ = await world.next_active(besides=active)
            decided_s = await world.decided_since(begun + took[what])
            silence_s = world.longest_silence(begun)
            print(
                f"{what}: another decides after {took[what]:.2f} s, a client's decision {decided_s:.2f} s later, "
                f"longest silence of a leader {silence_s:.2f} s"
            )
            await mend(active)
            assert took[what] < LEASE_S + SLACK_S + BUSY_S + world.busy_s(begun), what
            assert silence_s < SILENCE_S + world.busy_s(begun), what
            await world.check()

        async def kill(active):
            world.controllers[active].kill()

        async def start(active):
            world.controllers[active].start()
            await asyncio.sleep(2)

        async def pause(active):
            world.controllers[active].signal(SIGSTOP)

        async def resume(active):
            world.controllers[active].signal(SIGCONT)
            await asyncio.sleep(1)
            assert await world.active() != active, "it woke, and leads no longer"
            assert world.controllers[active].runs, "it stands for another term"

        async def cut(active):
            for link in world.links[list(world.controllers).index(active)]:
                link.cut()

        async def heal(active):
            for link in world.links[list(world.controllers).index(active)]:
                link.heal()
            assert world.controllers[active].runs

        await lost("controller killed", kill, start)
        await lost("controller paused", pause, resume)
        await lost("controller cut off", cut, heal)
        leader = (await world.admin.describe_topic(TOPIC)).partitions[0].leader
        _, active = await world.next_active()
        begun = time.monotonic()
        world.controllers[active].kill()
        world.brokers[leader].kill()
        acknowledged = len(world.acknowledged)
        await world.eventually(lambda: len(world.acknowledged) > acknowledged + 10, "another broker leads")
        silence_s = world.longest_silence(begun)
        print(f"controller and a leader killed: its partition is led again after {silence_s:.2f} s")
        assert silence_s < LEASE_S + COME_AFTER_S + SLACK_S + BUSY_S + world.busy_s(begun), (
            "it does not wait for the session that begins then"
        )
        world.controllers[active].start()
        world.brokers[leader].start()
        await world.all_in_sync()
        await world.check()
        links = world.links.values()
        hurts = {
            "paused": (lambda n: world.etcds.signal(n, SIGSTOP), lambda n: world.etcds.signal(n, SIGCONT)),
            "cut off": (lambda n: [each[n].cut() for each in links], lambda n: [each[n].heal() for each in links]),
            "killed": (world.etcds.kill, world.etcds.start_one),
        }
        for number, (what, (hurt, mend)) in enumerate(hurts.items()):
            await asyncio.to_thread(world.etcds.make_leader, number)
            begun = time.monotonic()
            hurt(number)
            decided_s = 0.5 + await world.decided_since(begun + 0.5)  # not one that was under way
            silence_s = world.longest_silence(begun)
            print(
                f"etcd {number} {what}: a client's decision after {decided_s:.2f} s, "
                f"longest silence of a leader {silence_s:.2f} s"
            )
            mend(number)
            await asyncio.sleep(1)
            assert decided_s < 2 * LEASE_S + SLACK_S + BUSY_S + world.busy_s(begun)
            assert silence_s < SILENCE_S + world.busy_s(begun)
            await world.check()
        await lose_a_host(world)


async def lose_a_host(world):
    """An etcd that becomes leader gives the lease its full time again, so a takeover takes its election and a lease."""
    _, active = await world.next_active()
    number = list(world.controllers).index(active)
    await asyncio.to_thread(world.etcds.make_leader, number)
    leader = (await world.admin.describe_topic(TOPIC)).partitions[0].leader
    begun = time.monotonic()
    world.etcds.signal(number, SIGKILL)
    world.controllers[active].kill()
    world.brokers[leader].kill()
    world.etcds.wait(number)
    acknowledged = len(world.acknowledged)
    took_s, _ = await world.next_active(besides=active)
    decided_s = await world.decided_since(begun + took_s)
    await world.eventually(lambda: len(world.acknowledged) > acknowledged + 10, "a new leader")
    silence_s = world.longest_silence(begun)
    print(
        f"a host lost: another controller decides after {took_s:.2f} s, a client's decision {decided_s:.2f} s later, "
        f"the partition is led again after {silence_s:.2f} s"
    )
    world.etcds.start_one(number)
    world.controllers[active].start()
    world.brokers[leader].start()
    await world.all_in_sync()
    allowed_s = ETCD_S + LEASE_S + SLACK_S + BUSY_S + world.busy_s(begun)
    assert took_s < allowed_s
    assert silence_s < allowed_s + COME_AFTER_S
    await world.check()
