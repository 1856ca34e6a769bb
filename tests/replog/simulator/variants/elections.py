"""Wrong ways for a controller to elect leaders and to take in-sync sets, and for brokers to hear of it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from leader.isr import AlterPartitionQueue, Pending
from leader.partition_leader import PartitionLeader
from replog.controller import alter_partition, broker_events, elections, evidence, registration
from replog.controller.cluster_state import ClusterState
from replog.controller.decision import Decision, numbered
from replog.errors import ErrorCode, ReplogError
from replog.metadata.changes import Change
from replog.metadata.image import Batch
from replog.metadata.records import published, record_of
from replog.metadata.values import BrokerRegistration, Claim, PartitionState
from replog.server.broker.control.lifecycle import BrokerLifecycle
from replog.server.broker.control.role_changes import RoleChanges
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.controller.active_controller import ActiveController
from tests.replog.simulator.variants import Variant

_refusal = alter_partition.refusal
_restart = broker_events.restart
_lead = RoleChanges._lead


def _refusal_of_any_incarnation(state, proposal, brokers, since):
    unfenced = {b.broker_id: replace(b, fenced=False, in_controlled_shutdown=False) for b in brokers.values()}
    members = tuple((b, brokers[b].broker_epoch if b in brokers else epoch) for b, epoch in proposal.isr)
    return _refusal(state, replace(proposal, isr=members), unfenced, since)


def _refusal_by_membership(state, proposal, brokers, since):
    current = replace(
        proposal,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        sender=state.leader,
        isr=(
            *(member for member in proposal.isr if member[0] != state.leader),
            *((leader, brokers[leader].broker_epoch) for leader in (state.leader,) if leader in brokers),
        ),
    )
    return _refusal(state, current if state.leader >= 0 else proposal, brokers, since)


def _refusal_of_old_epoch(state, proposal, brokers, since):
    return _refusal(state, replace(proposal, partition_epoch=state.partition_epoch), brokers, since)


def _refusal_whenever_sent(state, proposal, brokers, since):
    return _refusal(state, replace(proposal, known=0), brokers, since)


def _clean_restart(*arguments: Any, unclean: bool, missing: Any = frozenset()) -> Any:
    return _restart(*arguments, unclean=False, missing=missing)


def _elect_anyone(state: PartitionState, situation: Any, election: Any, by_evidence: int) -> tuple[int, bool]:
    leader, _ = _elect(state, situation, election, by_evidence)
    live = [replica for replica in state.replicas if replica in situation.active]
    return (leader if leader >= 0 or not live else live[0]), False


_elect = elections._elect


def _same_leader_epoch(state: PartitionState, *arguments: Any, **options: Any) -> PartitionState:
    changed = _settle(state, *arguments, **options)
    return replace(changed, leader_epoch=state.leader_epoch) if changed is not state else state


_settle = elections.settle


def _any_epoch(self: ClusterState, sender: Claim) -> BrokerRegistration:
    broker = self.image.broker(sender.broker_id)
    return broker if broker is not None else _registered(self, sender)


_registered = ClusterState._registered


def _take_leave(self: BrokerLifecycle, _why: str) -> float:
    self._may_stop.set()
    return 0.0


def _replace_in_flight(self: AlterPartitionQueue, topic_partition: Any, proposal: Any) -> bool:
    self._queued[topic_partition] = proposal
    return True


def _take_queued(self: AlterPartitionQueue, answered: Any) -> Any:
    """The answer goes to whom it is for; what takes its leave from the queue is what is there by now."""
    in_flight = self._in_flight or {}
    return {tp: in_flight[tp] for tp in _on_answer(self, answered)}


_on_answer = AlterPartitionQueue.on_answer


def _ignores_smaller_epoch_changes(self: RoleChanges, tp: Any, state: PartitionState) -> None:
    hosted = self._replicas.hosted.get(tp)
    if hosted is None or hosted.leader is None or hosted.leader.leader_epoch != state.leader_epoch:
        _lead(self, tp, state)


def _completed_in_part(state: PartitionState) -> PartitionState:
    changed = _completed(state)
    return changed if changed is state else replace(changed, isr=state.isr)


_completed = elections._completed


def _in_any_order(replicas: tuple[int, ...], brokers: Any) -> tuple[int, ...]:
    members = dict.fromkeys(brokers)
    return (*(r for r in replicas if r in members), *(r for r in sorted(members) if r not in replicas))


def _fence_all_from_one_base(self: ClusterState, now_ms: int) -> Decision[int | None]:
    unfenced = [broker.broker_id for broker in self.image.brokers.values() if not broker.fenced]
    expired = [broker_id for broker_id in unfenced if self.sessions.left_ms(broker_id, now_ms) == 0]
    changes = [
        change
        for broker_id in expired
        for change in broker_events.fence(self.image, self._rules, self.image.brokers[broker_id])
    ]
    return Decision(changes, expired[0] if expired else None)


async def _announce_then_store(self: ActiveController, wanted: Iterable[Any], _why: str) -> None:
    version = self.state.image.version
    changes = [change for change in numbered(wanted, version) if change is not None]
    records = [record_of(change) for change in changes]
    self.state.apply(Batch(self.state.image, changes), self.clock.monotonic_ms())
    self.records.put([published(record) for record in records])
    self._watchers.wake()
    try:
        await self._store.commit(version, records)
    except Exception as error:
        self._fail(error)
        raise ReplogError(ErrorCode.NOT_CONTROLLER, f"this controller must stop: {error}") from error


def _fence_all_but_isr(image: Any, rules: Any, broker: BrokerRegistration) -> Any:
    return [Change("broker", broker.broker_id, replace(broker, fenced=True, in_controlled_shutdown=False))]


def _resign_and_wait_for_nobody(self: PartitionLeader) -> None:
    _resign(self)
    if isinstance(self.state, Pending) and self.broker_id in self.state.leaving:
        self.state = replace(self.state, isr=frozenset({self.broker_id}))


_resign = PartitionLeader.resign


def _restart_of_the_same_disk(*arguments: Any, unclean: bool, missing: Any = frozenset()) -> Any:
    """Whatever is not there any more."""
    return _restart(*arguments, unclean=unclean and not missing)


def _restart_of_any_disk(*arguments: Any, unclean: bool, missing: Any = frozenset()) -> Any:
    return _restart(*arguments, unclean=unclean)


def _last_leader(state: PartitionState, log_ends: Any) -> int:
    return state.last_known_leader if state.last_known_leader in log_ends else _furthest(state, log_ends)


def _remembered(state: PartitionState, log_ends: Any) -> int:
    return _furthest(state, {r: end for r, end in log_ends.items() if r in state.last_known_elr} or log_ends)


def _longest(state: PartitionState, log_ends: Any) -> int:
    return _furthest(state, {r: end._replace(last_epoch=0) for r, end in log_ends.items()})


def _with_records(state: PartitionState, log_ends: Any) -> int:
    return _furthest(state, {r: end for r, end in log_ends.items() if end.last_epoch >= 0} or log_ends)


_furthest = evidence.furthest


VARIANTS = [
    Variant("empty-disk-stays-eligible", "elections", (registration, "restart", _restart_of_the_same_disk)),
    Variant(
        "last-leader-by-guess",
        "elections",
        (registration, "restart", _restart_of_any_disk),
        (evidence, "furthest", _last_leader),
    ),
    Variant("nobody-is-waited-for", "elections", (evidence, "awaited", lambda state, situation: frozenset())),
    Variant("missing-counts-as-empty", "elections", (evidence, "emptied", lambda state, answers: frozenset())),
    Variant("remembered-whatever-they-lost", "crashes", (evidence, "furthest", _remembered)),
    Variant("longest-whatever-its-epoch", "elections", (evidence, "furthest", _longest)),
    Variant("deleted-goes-behind-what-is-left", "elections", (evidence, "furthest", _with_records)),
    Variant("nobody-resigns", "serving", (ReplicaManager, "resign_where_unheard", lambda self: False)),
    Variant(
        "resigns-and-goes-on-alone",
        "network",
        (PartitionLeader, "resign", _resign_and_wait_for_nobody),
        (PartitionLeader, "min_insync_replicas", property(lambda self: 1)),
    ),
    Variant(
        "silence-is-no-death", "serving", (ClusterState, "fence_next_expired", lambda self, now_ms: Decision([], None))
    ),
    Variant("any-incarnation-joins", "isr", (alter_partition, "refusal", _refusal_of_any_incarnation)),
    Variant("isr-by-membership", "isr", (alter_partition, "refusal", _refusal_by_membership)),
    Variant("no-partition-epoch-check", "stragglers", (alter_partition, "refusal", _refusal_of_old_epoch)),
    Variant("overtaken-proposals-count", "stragglers", (alter_partition, "refusal", _refusal_whenever_sent)),
    Variant("unclean-restart-stays-eligible", "power", (registration, "restart", _clean_restart)),
    Variant("anyone-leads", "swarm", (elections, "_elect", _elect_anyone)),
    Variant("leader-epoch-not-raised", "swarm", (elections, "settle", _same_leader_epoch)),
    Variant(
        "stale-brokers-are-heard",
        "stragglers",
        (ClusterState, "_registered", _any_epoch),
        (BrokerLifecycle, "_lose", _take_leave),  # else the broker would repair it (D40)
    ),
    Variant(
        "proposal-replaces-one-in-flight",
        "stragglers",
        (AlterPartitionQueue, "submit", _replace_in_flight),
        (AlterPartitionQueue, "on_answer", _take_queued),
    ),
    Variant("leader-misses-isr-changes", "isr", (RoleChanges, "_lead", _ignores_smaller_epoch_changes)),
    Variant(
        "reassigned-replica-stays-in-isr",
        "moves",
        (elections, "_completed", _completed_in_part),
        (elections, "in_order", _in_any_order),
    ),
    Variant("fenced-from-one-base", "network", (ClusterState, "fence_next_expired", _fence_all_from_one_base)),
    Variant("fenced-stay-in-isr", "swarm", (broker_events, "fence", _fence_all_but_isr)),
    Variant("announced-before-stored", "controller", (ActiveController, "_commit", _announce_then_store)),
]
