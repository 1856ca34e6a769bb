"""Begins faults of the profile's kinds at random times and on random hosts, often several at a time."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from random import Random
from typing import TypeVar

from replog.simulator.clients.workload import Workload
from replog.simulator.cluster.kernel import Kernel
from replog.simulator.cluster.members import BrokerMember, Member
from replog.simulator.cluster.simulated_cluster import SimulatedCluster
from replog.simulator.profiles import SESSION_MS, FaultKind
from replog.topic import TopicPartition

M = TypeVar("M", bound=Member)

Ends = tuple[str, str]  # the sender and the receiver of a link


class NotNow(Exception):
    """The fault cannot begin: there is nothing that it could hit, or the budget does not allow it."""


class Nemesis:
    """Begins faults for a while; `SimulatedCluster.heal` repairs what they leave behind."""

    def __init__(self, kernel: Kernel, cluster: SimulatedCluster, workload: Workload) -> None:
        self.kernel = kernel
        self.cluster = cluster
        self.workload = workload
        self.rng: Random  # only in a copy that `_do` makes for one fault
        self._faults: Mapping[FaultKind, float] = cluster.plan.faults
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self, seconds: float) -> None:
        """Begin faults for that long, then cancel those that go on; what is broken stays broken."""
        beginning = [asyncio.create_task(self._begin_now_and_then(kind, rate)) for kind, rate in self._faults.items()]
        await asyncio.sleep(seconds)
        self._tasks += beginning
        for task in self._tasks:
            task.cancel()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    async def _begin_now_and_then(self, kind: FaultKind, rate: float) -> None:
        """Begin faults of one kind at random times. The times of each kind and the choices of each fault have their own
        streams, otherwise a new kind or one more draw would change all others."""
        when = self.kernel.stream(f"when to {kind.value}")
        while True:
            await asyncio.sleep(when.expovariate(rate / 60))
            self._tasks.append(asyncio.create_task(self._do(kind)))

    async def _do(self, kind: FaultKind) -> None:
        one = copy.copy(self)
        one.rng = self.kernel.stream(kind.value)
        try:
            await FAULTS[kind](one, kind)
        except NotNow:
            pass

    def begin(self, kind: FaultKind, **details: object) -> None:
        """Count and trace a fault that happens from now on."""
        self.cluster.faults[kind] += 1
        self.kernel.trace.add("FAULT", kind=kind.value, **details)

    async def lasting(
        self, kind: FaultKind, do: Callable[[], object], mend: Callable[[], object], **details: object
    ) -> None:
        """Let a fault happen now, and mend it after a while."""
        self.begin(kind, **details)
        do()
        await self.for_a_while()
        self.kernel.trace.add("mended", kind=kind.value, **details)
        mend()

    async def cut_for_a_while(self, kind: FaultKind, links: list[Ends], **details: object) -> None:
        await self.lasting(kind, lambda: self.cut(links), lambda: self.heal(links), **details)

    async def slow_for_a_while(
        self, kind: FaultKind, source: str, target: str, delay_ms: tuple[float, float], **details: object
    ) -> None:
        slow = partial(self.kernel.network.slow, source, target)
        await self.lasting(kind, lambda: slow(delay_ms), lambda: slow((0.0, 0.0)), **details)

    def cut(self, links: Iterable[Ends]) -> None:
        for source, target in links:
            self.kernel.network.block(source, target)

    def heal(self, links: Iterable[Ends]) -> None:
        for source, target in links:
            self.kernel.network.heal(source, target)

    def a_while_s(self) -> float:
        """Return how long a fault lasts: a moment, about a session, or long."""
        return self.rng.choice((0.3, SESSION_MS / 1000 * 2, self.cluster.plan.profile.long_s)) * self.rng.random()

    async def for_a_while(self) -> None:
        await asyncio.sleep(self.a_while_s())

    def running(self, member: M | None) -> M:
        """Return it. Raises NotNow if it does not run."""
        if member is None or not member.running:
            raise NotNow
        return member

    def running_broker(self) -> BrokerMember:
        return self.one_of([member for member in self.cluster.members.values() if member.running])

    def one_of(self, members: list[BrokerMember]) -> BrokerMember:
        if not members:
            raise NotNow
        return self.rng.choice(members)

    def partition(self) -> TopicPartition:
        return self.rng.choice(self.workload.partitions)

    def in_sync(self, tp: TopicPartition) -> set[BrokerMember]:
        state = self.cluster.last_image.partitions.get(tp)
        return {self.cluster.members[broker] for broker in state.isr} if state is not None else set()

    def replicas(self, tp: TopicPartition) -> list[BrokerMember]:
        state = self.cluster.last_image.partitions.get(tp)
        return [self.cluster.members[broker] for broker in state.replicas] if state is not None else []

    def leader(self, tp: TopicPartition) -> BrokerMember:
        """Return the partition's leader. Raises NotNow if it has none that runs."""
        return self.running(self.cluster.members.get(self.cluster.leader_of(tp)))

    def follower(self, tp: TopicPartition) -> BrokerMember:
        leader = self.cluster.leader_of(tp)
        return self.one_of([m for m in self.replicas(tp) if m.running and m.broker_id != leader])


def both_ways(names: Iterable[str], others: Iterable[str]) -> list[Ends]:
    return [link for a in names for b in others if a != b for link in ((a, b), (b, a))]


FaultAction = Callable[[Nemesis, FaultKind], Awaitable[None]]

FAULTS: dict[FaultKind, FaultAction] = {}


def fault(*kinds: FaultKind) -> Callable[[FaultAction], FaultAction]:
    """Register a coroutine that makes faults of these kinds."""

    def register(function: FaultAction) -> FaultAction:
        FAULTS.update(dict.fromkeys(kinds, function))
        return function

    return register
