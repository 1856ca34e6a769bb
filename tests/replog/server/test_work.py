"""What can wait gives way to those who are served, and to nobody else. In virtual time, which counts rests exactly."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from replog.server.broker.control.role_changes import WAVE
from replog.server.broker.disks.housekeeping import Housekeeping
from replog.server.broker.disks.log_flusher import LogFlusher
from replog.server.work import LONGEST_REST_S, RESTS, SERVED_MS, WORKERS, Throttle, in_thread, start_workers
from replog.simulator.runtime.loop import SimulatedLoop
from replog.simulator.runtime.process import ProcessClock, SimulatedProcess
from replog.simulator.runtime.rng import Rng
from replog.topic import TopicPartition
from tests.replog.server.broker.virtual_pair import VirtualPair

MANY = 2 * WAVE + 100
SERVED_S = SERVED_MS / 1000
OTHER = TopicPartition("other", 0)

# -- rests


def seconds(begin: Callable[[Throttle], object], things: int = 10, each_s: float = 0.004) -> float:
    """How long work on so many things takes."""
    loop = SimulatedLoop(Rng(1))

    async def work() -> None:
        throttle = Throttle(ProcessClock(loop))
        begin(throttle)
        async for _ in throttle.in_slices(range(things)):
            await asyncio.sleep(each_s)

    task = loop.spawn(SimulatedProcess("broker"), work())
    assert loop.run_until(task.done, 600)
    task.result()
    return loop.time()


def served_but_urgent(throttle: Throttle) -> None:
    throttle.served()
    throttle.is_urgent = lambda: True


def test_who_serves_nobody_does_not_rest():
    assert seconds(lambda _: None) == pytest.approx(0.04)


def test_who_serves_somebody_rests_several_times_as_long_as_it_worked():
    assert seconds(Throttle.served) == pytest.approx(0.04 * (1 + RESTS))


def test_what_is_urgent_rests_for_nobody():
    assert seconds(served_but_urgent) == pytest.approx(0.04)


def test_no_rest_is_long():
    assert seconds(Throttle.served, things=1, each_s=0.5) == pytest.approx(0.5 + LONGEST_REST_S)


def test_who_has_served_nobody_for_a_while_rests_no_more():
    worked_s, things = SERVED_S / (1 + RESTS), 1000
    assert seconds(Throttle.served, things) == pytest.approx(0.004 * things + SERVED_S - worked_s, rel=0.02)


# -- who is served, and what gives way


@pytest.fixture
def pair(pair):
    pair.create_topic()
    pair.run(asyncio.sleep(2 * SERVED_S))
    return pair


def gives_way(pair: VirtualPair) -> list[bool]:
    async def ask() -> list[bool]:
        throttles = [pair.brokers[broker_id].manager.context.throttle for broker_id in (1, 2)]
        return [throttle.serves and not throttle.is_urgent() for throttle in throttles]

    answer: list[bool] = pair.run(ask())
    return answer


def create(pair: VirtualPair, topic: str, partitions: int, *replicas: int) -> None:
    """Until a broker knows it: it may have none of its replicas yet."""

    pair.administer(lambda admin: admin.create_topic(topic, assignment=[replicas] * partitions), name=topic)


def made(pair: VirtualPair, topic: str) -> float:
    """How long it takes until broker 1 has made many replicas."""
    hosted, begun = pair.brokers[1].manager.replicas.hosted, pair.loop.time()
    create(pair, topic, MANY, 1)
    assert pair.loop.run_until(lambda: sum(tp.topic == topic for tp in hosted) == MANY, begun + 60)
    return pair.loop.time() - begun


def removed(pair: VirtualPair) -> float:
    """How long it takes to remove many deleted files."""
    broker = pair.brokers[1]
    assert broker.logs is not None
    chores = Housekeeping(broker.manager, broker.logs, LogFlusher(broker.manager, broker.logs, broker._fetchers))
    chores._expired = [pair.directory / f"{number}.deleted" for number in range(MANY)]
    for path in chores._expired:
        path.touch()
    begun = pair.loop.time()
    pair.run(chores._delete_expired())
    assert not list(pair.directory.glob("*.deleted"))
    return pair.loop.time() - begun


def serve(pair: VirtualPair) -> None:
    """Somebody, from now on, on broker 1."""

    async def serve() -> None:
        while True:
            pair.brokers[1].manager.context.throttle.served()
            await asyncio.sleep(SERVED_S / 2)

    pair.loop.spawn(pair.client, serve())


def test_a_leader_and_its_follower_serve_whoever_produces_and_idle_replicas_are_nobody(pair):
    assert gives_way(pair) == [False, False]
    pair.produce(100)
    pair.run(asyncio.sleep(SERVED_S / 2))  # the follower hears that it is committed
    assert gives_way(pair) == [True, True]
    pair.run(asyncio.sleep(2 * SERVED_S))
    assert gives_way(pair) == [False, False]


def test_many_replicas_come_and_go_slowly_where_somebody_is_served(pair):
    made_alone_s, removed_alone_s = made(pair, "alone"), removed(pair)
    serve(pair)
    assert made(pair, "beside") > 2 * made_alone_s
    assert removed(pair) > 2 * removed_alone_s


def test_a_fail_over_waits_for_no_replicas_that_are_still_to_come(pair):
    create(pair, OTHER.topic, 1, 2, 1)
    serve(pair)
    manager = pair.brokers[1].manager
    create(pair, "many", 10 * WAVE, 1)
    assert pair.loop.run_until(lambda: len(manager.replicas.hosted) > WAVE, 60)
    assert TopicPartition("many", 10 * WAVE - 1) in manager.context.image.partitions, "clients know all of it"
    pair.kill(2)
    assert pair.loop.run_until(lambda: pair.controller.state.image.partitions[OTHER].leader == 1, 60)
    elected_s = pair.loop.time()
    assert pair.loop.run_until(lambda: manager.replicas.hosted[OTHER].leader is not None, elected_s + 60)
    assert pair.loop.time() - elected_s < 0.3
    assert len(manager.replicas.hosted) < 9 * WAVE, "they are still to come"
    assert pair.loop.run_until(lambda: len(manager.replicas.hosted) == 10 * WAVE + 2, elected_s + 60)


async def test_the_result_and_the_error_come_back():
    assert await in_thread(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 // 0)


@pytest.mark.parametrize("times", [1, 3])
async def test_a_cancellation_however_often_waits_for_the_end_of_the_work(times):
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert may_end.wait(60)
        ended.set()
        raise OSError("seen by nobody")

    before = asyncio.all_tasks()
    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait, 60)
    for _ in range(times):
        for each in asyncio.all_tasks() - before:  # as at the end of a loop
            each.cancel()
        await asyncio.sleep(0.05)
        assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_once_the_workers_are_started_no_work_starts_a_thread():
    start_workers()
    before = set(threading.enumerate())
    all_at_work = threading.Barrier(WORKERS)
    await asyncio.gather(*(in_thread(lambda: all_at_work.wait(60)) for _ in range(WORKERS)))
    assert set(threading.enumerate()) == before
