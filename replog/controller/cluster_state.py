"""The controller's state: metadata, sessions, and every decision. Pure: time and random numbers are passed in.

A decision changes only sessions here, and the times at which leaders resigned. Its changes must be made durable first,
then given to `apply`.
"""

import base64
from collections.abc import Iterable, Sequence, Set
from functools import partial

from replog.config import ControllerConfig
from replog.controller import (
    broker_events,
    configs,
    leader_elections,
    producer_ids,
    reassignments,
    registration,
    topics,
)
from replog.controller.alter_partition import Proposal, Verdict, alter_partition
from replog.controller.broker_lifecycle import (
    BrokerControlState,
    BrokerSessions,
    Heartbeat,
    HeartbeatAnswer,
    control_state,
    next_state,
)
from replog.controller.decision import Decision
from replog.controller.elections import Election, was_unclean
from replog.controller.placement import Chance
from replog.controller.resignations import Resignations, heirs
from replog.controller.tombstones import Tombstones
from replog.errors import ErrorCode, ReplogError
from replog.metadata.batch import Batch
from replog.metadata.changes import Change, partitions_key
from replog.metadata.image import MetadataImage
from replog.metadata.values import BrokerRegistration, PartitionState
from replog.topic import TopicPartition

ELECTIONS_AT_ONCE = 500  # bounds one commit of the controller's own elections,
TOMBSTONES_AT_ONCE = 5000  # and one that forgets deletions


class ClusterState:
    """One cluster. `chance` makes topic ids and placements."""

    def __init__(self, config: ControllerConfig, chance: Chance) -> None:
        self.image = MetadataImage()
        self._tombstones = Tombstones()
        self._config = config
        self._rules = broker_events.Rules(
            config.min_insync_replicas, config.eligible_leader_replicas_enable, config.unclean_leader_election_enable
        )
        self.sessions = BrokerSessions(config.broker_session_timeout_ms)
        self.resignations = Resignations()
        self._chance = chance

    def load(self, changes: Iterable[Change], now_ms: int) -> None:
        """Load the content of a store: this controller becomes active, and every unfenced broker gets a new session.

        A fenced broker has none until its first heartbeat, so a cluster that was stopped starts without delay (CT-6).
        """
        for change in changes:
            self.image.put(change)
            self._tombstones.put(change)
        for broker in self.image.brokers.values():
            if not broker.fenced:
                self.sessions.touch(broker.broker_id, now_ms)
                self._note_shutdown(broker)

    def apply(self, committed: Batch, now_ms: int) -> None:
        """Apply committed changes. A registration starts a session (CT-1)."""
        committed.put()
        for change in committed.changes:
            self._tombstones.put(change)
            if change.kind == "broker":
                broker = self.image.brokers[change.name]
                if change.version == broker.broker_epoch:
                    self.sessions.touch(broker.broker_id, now_ms)
                self._note_shutdown(broker)

    def _note_shutdown(self, broker: BrokerRegistration) -> None:
        begun = self.image.version if broker.in_controlled_shutdown else None
        self.sessions.note_shutdown(broker.broker_id, begun)

    def found_cluster(self) -> Decision[None]:
        """A new store becomes a new cluster."""
        return Decision([Change("cluster", None, new_cluster_id(self._chance))], None)

    def register_broker(self, request: registration.Registration, now_ms: int) -> Decision[int]:
        """CT-1: the broker epoch. Raises as `registration.register`."""
        left_ms = self.sessions.left_ms(request.broker_id, now_ms)
        return registration.register(self.image, self._rules, request, left_ms)

    def heartbeat(self, request: Heartbeat, now_ms: int) -> Decision[HeartbeatAnswer]:
        """CT-3 to CT-5. Renews the session and decides. Call `let_go` after an answer that orders a shutdown.

        Raises STALE_BROKER_EPOCH, INVALID_REQUEST, NOT_CONTROLLER.
        """
        broker = self._registered(request.broker_id, request.broker_epoch)
        applied = request.metadata_version
        if applied < 0:
            raise ReplogError(ErrorCode.INVALID_REQUEST, f"metadata version {applied} of broker {broker.broker_id} < 0")
        self.check_version_known(applied)
        self.sessions.touch(broker.broker_id, now_ms, applied)
        caught_up = applied >= broker.broker_epoch  # CT-4
        current = control_state(broker)
        following = next_state(
            current,
            want_fence=request.want_fence,
            want_shutdown=request.want_shutdown,
            caught_up=caught_up,
            leads=request.want_shutdown and broker_events.leads_something(self.image, broker.broker_id),
            shutdown_seen=broker.in_controlled_shutdown
            and self.sessions.shutdown_seen(broker.broker_id, broker_events.active_brokers(self.image)),
        )
        changes = self._transition(broker, current, following)
        answer = HeartbeatAnswer(
            is_caught_up=caught_up,
            is_fenced=following in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW),
            should_shutdown=following is BrokerControlState.SHUTDOWN_NOW,
        )
        return Decision(changes, answer)

    def let_go(self, broker_id: int) -> None:
        """It was ordered to stop: its successor need not wait for the session to expire."""
        self.sessions.end(broker_id)

    def _transition(
        self, broker: BrokerRegistration, current: BrokerControlState, following: BrokerControlState
    ) -> Iterable[Change | None]:
        if following is current:
            return []
        match following:
            case BrokerControlState.UNFENCED:
                return broker_events.unfence(self.image, self._rules, broker)
            case BrokerControlState.CONTROLLED_SHUTDOWN:
                return broker_events.begin_controlled_shutdown(self.image, self._rules, broker)
            case _:
                return [] if broker.fenced else broker_events.fence(self.image, self._rules, broker)

    def fence_next_expired(self, now_ms: int) -> Decision[int | None]:
        """Fence the unfenced broker whose session ended first, and answer its id. None if no session has ended.

        One at a time: each decision sees the ISRs that the previous one left (CT-6).
        """
        unfenced = [broker.broker_id for broker in self.image.brokers.values() if not broker.fenced]
        for broker_id in self.sessions.in_expiry_order(unfenced)[:1]:
            if self.sessions.left_ms(broker_id, now_ms) == 0:
                broker = self.image.brokers[broker_id]
                return Decision(broker_events.fence(self.image, self._rules, broker), broker_id)
        return Decision([], None)

    def fence_gone(self, broker: BrokerRegistration) -> Decision[bool]:
        """The process is gone: fence it now, and let its successor register at once (CT-21). False if it has come back.

        An error here does no harm: a broker that lives hears that it is fenced, and is unfenced as any other.
        """
        if not self.is_unfenced(broker):
            return Decision([], False)
        self.sessions.end(broker.broker_id)
        return Decision(broker_events.fence(self.image, self._rules, self.image.brokers[broker.broker_id]), True)

    def is_unfenced(self, broker: BrokerRegistration) -> bool:
        """Whether this process, and no later one of its id, may serve."""
        known = self.image.broker(broker.broker_id)
        return known is not None and known.incarnation_id == broker.incarnation_id and not known.fenced

    def collect_tombstones(self, limit: int = TOMBSTONES_AT_ONCE) -> Decision[int]:
        """Forget deletions that every unfenced broker has applied, a bounded number. Answers how many.

        If a fenced broker or another watcher knows only older metadata, it gets everything again.
        """
        unfenced = [broker.broker_id for broker in self.image.brokers.values() if not broker.fenced]
        deletions = self._tombstones.up_to(self.sessions.applied_by_all(unfenced), limit)
        changes = [Change("collected", None, max(deletions.values()))] if deletions else []
        return Decision(changes, len(deletions))

    def forgotten_by(self, changes: Iterable[Change]) -> list[str]:
        """Keys of which nothing is kept after `changes`; one that ends in "/" stands for all that begin with it."""
        forgotten: list[str] = []
        for change in changes:
            if change.kind == "collected":
                forgotten += self._tombstones.up_to(change.value)
            elif change.kind == "topic" and change.value is None:
                forgotten.append(partitions_key(change.name))
        return forgotten

    def rebalance_leaders(self) -> Decision[int]:
        """Preferred elections, a bounded number; answers how many (CT-12)."""
        changes = leader_elections.rebalance(self.image, self._rules, ELECTIONS_AT_ONCE)
        return Decision(changes, len(changes))

    def retry_unclean_elections(self) -> Decision[int]:
        """Leaders for partitions whose topics allow unclean ones, a bounded number; answers how many (CT-12)."""
        changes = leader_elections.retry_unclean(self.image, self._rules, ELECTIONS_AT_ONCE)
        return Decision(changes, len(changes))

    def elect_leaders(
        self, election: Election, partitions: Iterable[TopicPartition]
    ) -> Decision[list[leader_elections.Elected]]:
        """CT-11, each partition by itself."""
        return leader_elections.elect_leaders(self.image, self._rules, election, partitions)

    def unclean_elections(self, changes: Iterable[Change]) -> list[tuple[TopicPartition, int]]:
        """Which of `changes`, not yet applied, give a partition a leader that may miss committed records."""
        unclean = []
        for kind, tp, new, *_ in changes:
            if kind == "partition" and new is not None and new.recovering:
                old = self.image.partitions.get(tp)
                if old is not None and was_unclean(old, new):
                    unclean.append((tp, new.leader))
        return unclean

    def alter_partition_reassignments(
        self, wanted: Iterable[reassignments.Reassignment]
    ) -> Decision[list[ReplogError]]:
        """CT-14, CT-16, each partition by itself."""
        return reassignments.alter(self.image, self._rules, wanted)

    def list_partition_reassignments(
        self, partitions: Sequence[TopicPartition]
    ) -> list[tuple[TopicPartition, PartitionState]]:
        """The partitions that are being reassigned: of `partitions`, or of all if none is named."""
        return reassignments.ongoing(self.image, partitions or self.image.index.reassigning)

    def heirs(self, broker_id: int, broker_epoch: int, proposals: Iterable[Proposal]) -> list[BrokerRegistration]:
        """Brokers that could lead the partitions that the sender gives away (CT-22). Raises STALE_BROKER_EPOCH."""
        self._registered(broker_id, broker_epoch)
        able: set[int] = set()
        for proposal in proposals:
            state = self.image.partitions.get(proposal.topic_partition)
            if state is not None and state.leader == broker_id and proposal.resigns:
                able.update(heirs(state))
        return [self.image.brokers[heir] for heir in sorted(able)]

    def alter_partition(
        self,
        broker_id: int,
        broker_epoch: int,
        proposals: Iterable[Proposal],
        present: Set[int],
        now_ms: int,
    ) -> Decision[list[Verdict]]:
        """§6.4; of the `heirs` those that are `present` may take over (CT-22). Raises STALE_BROKER_EPOCH."""
        sender = self._registered(broker_id, broker_epoch)
        resign = partial(self.resignations.resign, present=present, now_ms=now_ms)
        return alter_partition(self.image, self._rules, sender, proposals, resign)

    def create_topic(self, request: topics.NewTopic) -> Decision[topics.CreatedTopic]:
        """CT-18, CT-20. Raises as `topics.create_topic`."""
        return topics.create_topic(self.image, self._config, request, self._chance)

    def delete_topic(self, name: str, topic_id: bytes = b"") -> Decision[int]:
        """CT-19. Raises as `topics.delete_topic`."""
        return topics.delete_topic(self.image, name, topic_id)

    def alter_topic_configs(self, name: str, change: configs.ConfigChange) -> Decision[configs.AlteredConfigs]:
        """Raises as `configs.alter_topic_configs`."""
        return configs.alter_topic_configs(self.image, self._rules, name, change)

    def alter_broker_configs(self, broker_id: int, change: configs.ConfigChange) -> Decision[configs.AlteredConfigs]:
        """Raises as `configs.alter_broker_configs`."""
        return configs.alter_broker_configs(self.image, broker_id, change)

    def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> Decision[int]:
        """The next block, for a broker that serves. Raises as `producer_ids.allocate`, and STALE_BROKER_EPOCH."""
        return producer_ids.allocate(self.image, self._registered(broker_id, broker_epoch))

    def check_version_known(self, version: int) -> None:
        """Raises NOT_CONTROLLER if a caller has seen newer metadata than this controller has."""
        if version > self.image.version:
            raise ReplogError(
                ErrorCode.NOT_CONTROLLER,
                f"metadata version {version} is unknown here, the newest is {self.image.version}: this controller is "
                "behind, or its store was replaced by an older copy",
            )

    def _registered(self, broker_id: int, broker_epoch: int) -> BrokerRegistration:
        """Every request of a broker is checked against its registration (CT-3, INV-20)."""
        broker = self.image.broker(broker_id)
        if broker is None or broker.broker_epoch != broker_epoch:
            state = "is not registered" if broker is None else f"is registered with epoch {broker.broker_epoch}"
            raise ReplogError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"broker {broker_id} {state}, not {broker_epoch}; another process took the id, or it must register",
            )
        return broker


def new_cluster_id(chance: Chance) -> str:
    """16 random bytes as 22 characters, like Kafka's; never one that looks like a command-line option."""
    while True:
        cluster_id = base64.urlsafe_b64encode(chance.randbytes(16)).decode().rstrip("=")
        if not cluster_id.startswith("-"):
            return cluster_id
