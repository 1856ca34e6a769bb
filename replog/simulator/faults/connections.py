"""Faults of the network: links are cut, broken or slowed, and repaired a while later; leaders take turns, each alone
with its clients, which is the hardest case for a follower that searches where logs differ."""

import asyncio

from replog.simulator.cluster.members import BrokerMember
from replog.simulator.faults.nemesis import Ends, Nemesis, NotNow, both_ways, fault
from replog.simulator.plan import LAG_MS
from replog.simulator.profiles import SESSION_MS, FaultKind
from replog.simulator.runtime.loop import until
from replog.simulator.runtime.process import CONTROLLER
from replog.topic import TopicPartition

ALONE_S, POLL_S = 3 * (SESSION_MS + LAG_MS) / 1000, 0.02  # the longest time until another leads, and between two looks


def _everyone(n: Nemesis) -> list[str]:
    return [member.name for member in n.cluster.everyone()] + n.workload.clients


def _a_link(n: Nemesis) -> Ends:
    a = n.running_broker().name
    b = n.rng.choice([name for name in _everyone(n) if name != a])
    return (a, b) if n.rng.random() < 0.5 else (b, a)


@fault(FaultKind.CUT_LINK, FaultKind.CUT_ONE_WAY)
async def cut_link(n: Nemesis, kind: FaultKind) -> None:
    a, b = _a_link(n)
    links = [(a, b), (b, a)] if kind is FaultKind.CUT_LINK else [(a, b)]
    await n.cut_for_a_while(kind, links, source=a, to=b)


@fault(FaultKind.ISOLATE_BROKER, FaultKind.ISOLATE_FROM_CONTROLLER, FaultKind.ISOLATE_FROM_BROKERS)
async def isolate(n: Nemesis, kind: FaultKind) -> None:
    """A broker is alone; or a leader keeps its followers, and is deposed without hearing of it; or it keeps its
    session, and loses its followers."""
    others = {
        FaultKind.ISOLATE_BROKER: _everyone(n),
        FaultKind.ISOLATE_FROM_CONTROLLER: [CONTROLLER],
        FaultKind.ISOLATE_FROM_BROKERS: [member.name for member in n.cluster.members.values()],
    }
    member = n.running_broker() if kind is FaultKind.ISOLATE_BROKER else n.leader(n.partition())
    await n.cut_for_a_while(kind, both_ways([member.name], others[kind]), broker=member.name)


@fault(FaultKind.ISOLATE_BYSTANDER)
async def isolate_bystander(n: Nemesis, kind: FaultKind) -> None:
    """A leader dies, and a broker without the controller goes on naming it to clients."""
    tp = n.partition()
    leader = n.leader(tp)
    bystander = n.one_of([m for m in n.cluster.members.values() if m.running and m is not leader])
    process = leader.process

    async def kill_the_leader() -> None:
        await asyncio.sleep(n.rng.random())
        if leader.process is process:
            leader.kill()

    killing = asyncio.create_task(kill_the_leader())
    links = both_ways([bystander.name], [CONTROLLER])
    try:
        await n.cut_for_a_while(kind, links, partition=tp, broker=bystander.name, kills=leader.name)
    finally:
        killing.cancel()


@fault(FaultKind.SPLIT)
async def split(n: Nemesis, kind: FaultKind) -> None:
    """The hosts are in two groups that do not hear each other; sometimes one or two hosts hear both."""
    names = _everyone(n)
    n.rng.shuffle(names)
    size = n.rng.randint(1, len(names) - 1)
    bridge = n.rng.choice((0, 0, 1, 2))
    left, right = names[:size], names[size + bridge :]
    await n.cut_for_a_while(kind, both_ways(left, right), left=left, right=right)


@fault(FaultKind.BREAK_CONNECTIONS)
async def break_connections(n: Nemesis, kind: FaultKind) -> None:
    a, b = _a_link(n)
    n.begin(kind, a=a, b=b)
    n.kernel.network.break_connections(a, b)


@fault(FaultKind.FALSE_ALARM)
async def false_alarm(n: Nemesis, kind: FaultKind) -> None:
    """The controller loses a live broker's stream, sometimes repeatedly, and a probe says that no process is there."""
    name = n.running_broker().name
    n.begin(kind, broker=name)
    n.kernel.network.liars.add(name)
    for _ in range(n.rng.choice((1, 1, 4))):
        n.kernel.network.end_calls(name, "watch_metadata")
        await asyncio.sleep(3 * n.rng.random())
    n.kernel.trace.add("mended", kind=kind.value, broker=name)
    n.kernel.network.liars.discard(name)


@fault(FaultKind.SLOW_LINK)
async def slow_link(n: Nemesis, kind: FaultKind) -> None:
    a, b = _a_link(n)
    await _slow(n, kind, a, b, n.rng.choice((0.05, 0.5, 2.0)) * n.rng.random())


@fault(FaultKind.SLOW_FOLLOWER)
async def slow_follower(n: Nemesis, kind: FaultKind) -> None:
    """A fetch takes a little less or more time than a follower may lag."""
    tp = n.partition()
    leader, follower = n.leader(tp).name, n.follower(tp).name
    await _slow(n, kind, follower, leader, LAG_MS / 1000 * n.rng.uniform(0.3, 1.1))


@fault(FaultKind.SLOW_METADATA)
async def slow_metadata(n: Nemesis, kind: FaultKind) -> None:
    """A broker learns late who leads and what became of its proposals, while its own heartbeats come in time."""
    name = n.running_broker().name
    await _slow(n, kind, CONTROLLER, name, n.rng.choice((0.1, 0.5, 1.2)) * n.rng.random())


async def _slow(n: Nemesis, kind: FaultKind, a: str, b: str, delay_s: float) -> None:
    await n.slow_for_a_while(kind, a, b, (delay_s * 800, delay_s * 1200), a=a, b=b, delay_s=round(delay_s, 6))


@fault(FaultKind.DUEL)
async def duel(n: Nemesis, kind: FaultKind) -> None:
    """A leader loses the other brokers and the controller, while its clients still write to it; then it comes back, and
    the next leader is cut off. Often only two stay eligible, so that each log gets epochs that the other does not have
    (scenario F)."""
    tp = n.partition()
    rivals = [n.leader(tp), n.follower(tp)]
    only_two = n.rng.random() < 0.7
    n.begin(kind, partition=tp, brokers=",".join(rival.name for rival in rivals) if only_two else "all")
    cut: dict[BrokerMember, None] = {}
    try:
        if only_two:
            for member in n.replicas(tp):
                if member not in rivals:
                    _cut_off(n, member, cut)
            await until(lambda: _leads(n, tp) in rivals and n.in_sync(tp) <= set(rivals), ALONE_S, POLL_S)
        for _ in range(n.rng.randint(2, 6)):
            leader = n.leader(tp)
            await asyncio.sleep(n.rng.random())
            _cut_off(n, leader, cut)
            for member in [member for member in cut if member is not leader and (member in rivals or not only_two)]:
                _mend(n, member, cut)
            if not await until(lambda: _leads(n, tp) not in (None, leader), ALONE_S, POLL_S):  # noqa: B023
                break
    except NotNow:
        pass  # another fault killed the leader
    finally:
        n.kernel.trace.add("mended", kind=kind.value, partition=tp)
        for member in list(cut):
            _mend(n, member, cut)


def _leads(n: Nemesis, tp: TopicPartition) -> BrokerMember | None:
    return n.cluster.members.get(n.cluster.leader_of(tp))


def _peers(n: Nemesis, member: BrokerMember) -> list[str]:
    return [CONTROLLER, *(other.name for other in n.cluster.members.values() if other is not member)]


def _cut_off(n: Nemesis, member: BrokerMember, cut: dict[BrokerMember, None]) -> None:
    cut[member] = None
    n.cut(both_ways([member.name], _peers(n, member)))


def _mend(n: Nemesis, member: BrokerMember, cut: dict[BrokerMember, None]) -> None:
    """Heal the member's links, except those to members that are still cut off."""
    del cut[member]
    still = {other.name for other in cut}
    n.heal(both_ways([member.name], [peer for peer in _peers(n, member) if peer not in still]))
