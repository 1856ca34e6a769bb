"""One pool for everybody: who comes late gets less, waits in order, and not for ever."""

import asyncio
from functools import partial

import pytest

from replog.server.broker.replicas.byte_pool import LARGEST_PART, SENT_AWAY_EVERY_S, SMALLEST_LEASE, BytePool, Lease

MIB = 1 << 20
LONG_S = 60.0


async def hold(budget: BytePool, wanted: int) -> tuple[int, "asyncio.Task[None]"]:
    """The share that a reader gets who keeps it until its task is cancelled."""
    got: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def keep() -> None:
        with Lease(budget) as share:
            await share.take(wanted)
            got.set_result(share.size)
            await asyncio.Event().wait()

    task = asyncio.create_task(keep())
    await asyncio.wait([got, task], return_when=asyncio.FIRST_COMPLETED)
    return got.result(), task


async def end(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_shares_get_smaller_as_room_gets_scarce_and_never_exceed_the_budget():
    budget = BytePool(64 * MIB, LONG_S)
    sizes, holders = [], []
    while budget.capacity - budget.used >= SMALLEST_LEASE:
        size, task = await hold(budget, 64 * MIB)
        sizes.append(size)
        holders.append(task)
    assert sizes == sorted(sizes, reverse=True)
    assert (sizes[0], sizes[-1]) == (64 * MIB // LARGEST_PART, SMALLEST_LEASE)
    assert sum(sizes) == budget.used <= budget.capacity
    await end(*holders)
    assert budget.used == 0


async def test_who_finds_no_room_waits_in_order_and_gets_what_is_given_back():
    budget = BytePool(SMALLEST_LEASE, LONG_S)
    _, first = await hold(budget, MIB)
    order: list[str] = []

    async def wait(name: str) -> None:
        with Lease(budget) as share:
            await share.take(MIB)
            assert share.size == SMALLEST_LEASE
            order.append(name)

    waiting = []
    for name in "abc":
        waiting.append(asyncio.create_task(wait(name)))
        await asyncio.sleep(0)
    await end(waiting.pop(1))  # one in the middle of the line gives up
    assert order == []
    await end(first)
    await asyncio.wait_for(asyncio.gather(*waiting), 60)
    assert order == ["a", "c"]
    assert budget.used == 0


async def test_who_waited_in_vain_gets_nothing_and_leaves_nothing():
    budget = BytePool(SMALLEST_LEASE, 0.01)
    _, holder = await hold(budget, MIB)
    with Lease(budget) as share:
        await share.take(MIB)
        assert share.size == 0
        assert budget.used == SMALLEST_LEASE
    await end(holder)
    assert budget.used == 0
    with Lease(budget) as share:
        await share.take(10)
        assert share.size == 10


async def test_a_first_batch_larger_than_its_share_counts_in_full_until_it_is_taken():
    budget = BytePool(MIB, 0.01)
    with Lease(budget) as share:
        await share.take(MIB)
        share.resize(5 * MIB)
        assert budget.used == 5 * MIB
        with Lease(budget) as other:
            await other.take(1)
            assert other.size == 0
    assert budget.used == 0


async def test_answers_of_many_who_ask_at_once_are_begun_one_in_each_pass_of_the_event_loop():
    budget = BytePool(64 * MIB, LONG_S)
    begun, passes = [], 0

    async def ask() -> None:
        with Lease(budget) as share:
            await share.take(1)
            begun.append(passes)

    asking = [asyncio.create_task(ask()) for _ in range(100)]
    while len(begun) < 100:
        await asyncio.sleep(0)
        passes += 1
    assert len(set(begun)) == 100, begun
    await asyncio.gather(*asking)


async def test_of_many_who_waited_in_vain_each_is_sent_away_a_while_after_the_one_before():
    budget = BytePool(SMALLEST_LEASE, 0.01)
    _, holder = await hold(budget, MIB)
    left_at: list[float] = []

    async def wait() -> None:
        with Lease(budget) as share:
            await share.take(MIB)
            assert share.size == 0
            left_at.append(asyncio.get_running_loop().time())

    await asyncio.gather(*(wait() for _ in range(20)))
    assert left_at[-1] - left_at[0] >= 19 * SENT_AWAY_EVERY_S * 0.9, left_at
    await end(holder)


@pytest.mark.parametrize("granted_first", [True, False])
async def test_a_cancelled_wait_gives_back_what_it_was_just_granted(granted_first):
    budget = BytePool(SMALLEST_LEASE, LONG_S)
    _, holder = await hold(budget, MIB)

    async def wait() -> None:
        with Lease(budget) as share:
            await share.take(MIB)
            raise AssertionError("not reached")

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    holder.cancel()
    if granted_first:
        while budget._line:
            await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(holder, waiting, return_exceptions=True)
    assert waiting.cancelled()
    assert budget.used == 0


async def test_who_asks_without_a_task_is_called_in_turn_and_may_leave_the_line():
    budget, got = BytePool(SMALLEST_LEASE, LONG_S), list[tuple[str, int]]()
    leases = {name: Lease(budget) for name in "abcd"}
    for name, lease in leases.items():
        lease.ask(MIB, lambda size, name=name: got.append((name, size)))
    assert got == [("a", SMALLEST_LEASE)]
    leases["b"].resize(0)
    leases["a"].resize(0)
    while len(got) < 2:
        await asyncio.sleep(0)
    leases["c"].resize(0)
    while len(got) < 3:
        await asyncio.sleep(0)
    assert got == [(name, SMALLEST_LEASE) for name in "acd"]
    leases["d"].resize(0)
    assert budget.used == 0


async def test_who_asked_in_vain_may_ask_again_at_once():
    budget, got = BytePool(SMALLEST_LEASE, 0.01), list[int]()
    budget.add(SMALLEST_LEASE)
    lease = Lease(budget)

    def then(size: int) -> None:
        got.append(size)
        if not size:
            budget.add(-SMALLEST_LEASE)
            lease.ask(1, then)

    lease.ask(1, then)
    while len(got) < 2:
        await asyncio.sleep(0.001)
    assert (got, budget.used) == ([0, 1], 1)


def test_all_who_wait_for_held_bytes_to_go_go_on_together_once():
    held, went_on = BytePool(100), list[str]()
    held.add(150)
    for name in ("first", "second"):
        held.when_room(partial(went_on.append, name))
    held.add(-50)
    assert (held.has_room, went_on) == (False, [])
    held.add(-1)
    assert (held.has_room, went_on) == (True, ["first", "second"])
    held.add(-99)
    assert (held.used, went_on) == (0, ["first", "second"])
