"""Availability during faults (live): if a majority could serve, producers that reach it are acknowledged in time.

A group of replicas could serve a partition while

- they are a majority of its replicas and at least `min.insync.replicas`, and one of them is in the ISR or the ELR;
- each runs, has started, has a sound disk, and reaches the others and a sound controller, in both directions;
- one of them leads, or no leader that the controller hears does, or the leader has to resign in favour of some of them
  (ISR-20), unless that leader has a slow disk, or has just come (CT-22).

If a group could serve for `BOUND_S` without a break, each producer that reaches all of it must get, within that time,
an acknowledgement with acks=all, or a leader's answer that its record is too large."""

from collections.abc import Iterator
from itertools import combinations

from replog.controller.alter_partition import candidates
from replog.controller.broker_events import MIN_INSYNC_REPLICAS
from replog.metadata.values import LEAST_CANDIDATES, PartitionState
from replog.simulator.clients.workload import Workload
from replog.simulator.cluster.kernel import Kernel
from replog.simulator.cluster.members import ETCD
from replog.simulator.cluster.simulated_cluster import SimulatedCluster
from replog.simulator.history import History
from replog.simulator.invariants import Violation
from replog.simulator.runtime.process import CONTROLLER, RUNNING
from replog.topic import TopicPartition

BOUND_S = 20.0  # the session, lag and request timeouts are one or two seconds; a silent connection lives 5 to 20 s
LOOK_S = 0.25

Group = tuple[TopicPartition, frozenset[int], str]  # the replicas, and a producer that reaches them


class Serving:
    """Looks at the cluster every `LOOK_S`, from `begin` to `end`, in no process."""

    def __init__(self, kernel: Kernel, cluster: SimulatedCluster, workload: Workload) -> None:
        self.longest_s = 0.0  # the longest time that a producer waited for a group that could serve
        self._kernel = kernel
        self._cluster = cluster
        self._workload = workload
        self._history: History = workload.history
        self._since: dict[Group, float] = {}
        self._waiting: dict[tuple[str, TopicPartition], float] = {}  # the time of the first send after the last answer
        self._sends = self._answers = 0  # the numbers of the history's entries at the last look
        self._over = False

    def begin(self) -> None:
        if not self._over:
            self._look()
            self._kernel.outside(self.begin, after_s=LOOK_S)

    def end(self) -> None:
        self._over = True

    def _look(self) -> None:
        now = self._kernel.now_s
        self._follow_history()
        self._since = {group: self._since.get(group, now) for group in self._groups()}
        for (tp, brokers, producer), since in self._since.items():
            waiting = self._waiting.get((producer, tp))
            if waiting is None:
                continue
            waited_s = now - max(waiting, since)
            self.longest_s = max(self.longest_s, waited_s)
            if waited_s > BOUND_S:
                raise Violation(
                    "live",
                    f"{tp}: for {now - since:.1f} s brokers {sorted(brokers)} have reached each other, the controller "
                    f"and {producer}, which has waited {waited_s:.1f} s for an acknowledgement; "
                    f"{self._cluster.last_image.partitions.get(tp)}",
                )

    def _follow_history(self) -> None:
        sends, answers = self._history.sends, self._history.answers
        answered = dict.fromkeys(answers[self._answers :])
        for send in answered:
            self._waiting.pop((_process(send.client), send.partition), None)
        for send in sends[self._sends :]:
            if send.acks == -1 and send not in answered:
                self._waiting.setdefault((_process(send.client), send.partition), send.invoked_s)
        self._answers, self._sends = len(answers), len(sends)

    def _groups(self) -> Iterator[Group]:
        cluster = self._cluster
        controller, member = cluster.controller, cluster.controller_member
        if controller is None or not member.running or member.store_fails or not self._kernel.disk.sound(CONTROLLER):
            return
        if cluster.etcd is not None and not (cluster.etcd.running and self._reach(member.name, ETCD)):
            return
        image, resignations, now_ms = controller.state.image, controller.state.resignations, member.clock.monotonic_ms()
        names = {broker: member.name for broker, member in cluster.members.items() if self._able(broker)}
        together = {pair for pair in combinations(names, 2) if self._reach(names[pair[0]], names[pair[1]])}
        reached = {
            producer: {broker for broker, name in names.items() if self._reach(producer, name)}
            for producer in self._workload.producers
        }
        for tp in self._workload.partitions:
            state = image.partitions.get(tp)
            if state is None:
                continue
            minimum = int(image.topics[tp.topic].configs[MIN_INSYNC_REPLICAS])
            needed = max(minimum, len(state.replicas) // 2 + 1)
            following = set() if resignations.has_just(tp, now_ms) else self._following(state, minimum)
            members = sorted(names.keys() & set(state.replicas))
            for size in range(needed, len(members) + 1):
                for group in combinations(members, size):
                    if together.issuperset(combinations(group, 2)) and self._could_serve(state, group, following):
                        for producer, brokers in reached.items():
                            if brokers.issuperset(group):
                                yield tp, frozenset(group), producer

    def _able(self, broker_id: int) -> bool:
        member = self._cluster.members[broker_id]
        return (
            member.running
            and member.broker is not None
            and member.broker.replicas.started
            and self._kernel.disk.sound(member.name)
            and self._reach(member.name, self._cluster.controller_member.name)
        )

    def _could_serve(self, state: PartitionState, group: tuple[int, ...], following: set[int]) -> bool:
        """Return True if a group whose members reach each other could serve."""
        return (
            state.leader in group or not self._holds_on(state.leader) or bool(following and following <= set(group))
        ) and not set(group).isdisjoint((*state.isr, *state.elr))

    def _holds_on(self, leader: int) -> bool:
        """Return True if the leader runs and reaches its controller."""
        member = self._cluster.members.get(leader)
        return (
            member is not None
            and member.process.state is RUNNING
            and self._reach(member.name, self._cluster.controller_member.name)
        )

    def _following(self, state: PartitionState, minimum: int) -> set[int]:
        """Return the replicas for which the leader has to resign, since it hears none of them; empty if it may stay."""
        able, leader = set(candidates(state)), self._cluster.members.get(state.leader)
        has_to = (
            leader is not None
            and len(able) >= max(LEAST_CANDIDATES, minimum)
            and self._able(leader.broker_id)
            and not any(self._sound(self._cluster.members[candidate].name, leader.name) for candidate in able)
        )
        return able if has_to else set()

    def _sound(self, one: str, other: str) -> bool:
        return self._kernel.network.link(one, other).sound

    def _reach(self, one: str, other: str) -> bool:
        return self._sound(one, other) and self._sound(other, one)


def _process(client: str) -> str:
    """Return the process of a client's life, as in `producer-1.3`."""
    return client.partition(".")[0]
