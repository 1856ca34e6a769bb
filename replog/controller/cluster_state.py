"""The controller's state: metadata, sessions, and every decision. Pure: time and random numbers are passed in.

A decision changes only sessions here, and the times at which leaders resigned. The caller makes its changes durable
and then gives them to `apply`."""

import base64
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import partial

from replog.common.acl import Acl, AclFilter
from replog.config.processes import ControllerConfig
from replog.controller import acls, audits, broker_events, configs, evidence, reassignments, registration, topics
from replog.controller.alter_partition import Proposal, Resignations, Verdict, alter_partition, candidates
from replog.controller.broker_lifecycle import (
    BrokerControlState,
    BrokerSessions,
    Heartbeat,
    HeartbeatAnswer,
    control_state,
    next_state,
)
from replog.controller.decision import Decision
from replog.controller.elections import Election, Strategy, was_unclean
from replog.controller.evidence import Evidence, KnownLogEnds
from replog.controller.registration import has_joined, never_joined
from replog.controller.topics import Rng
from replog.errors import ErrorCode, ReplogError
from replog.log.directories.identity import Position
from replog.metadata.changes import Change, Tombstones, partitions_key
from replog.metadata.image import HISTORY_ID_SIZE, Batch, MetadataImage, begin, continues
from replog.metadata.values import NO_LEADER, BrokerRegistration, Claim, PartitionState, StandingAudit, is_same
from replog.topic import TopicPartition

ELECTIONS_AT_ONCE = 500  # bounds one commit of the controller's own elections
TOMBSTONES_AT_ONCE = 5000  # bounds one commit that forgets deletions
BLOCK_SIZE = 1000  # producer ids that a broker gets at a time, to hand out
MAX_PRODUCER_ID = 2**63 - 1


class ClusterState:
    """One cluster. `rng` makes topic ids and placements."""

    def __init__(self, config: ControllerConfig, rng: Rng) -> None:
        self.image = MetadataImage()
        self._tombstones = Tombstones()
        self._config = config
        self._rules = broker_events.Rules(
            config.min_insync_replicas,
            config.eligible_leader_replicas_enable,
            Strategy.AGGRESSIVE
            if config.unclean_leader_election_enable
            else Strategy(config.unclean_recovery_strategy),
        )
        self.evidence = Evidence()
        self.sessions = BrokerSessions(config.broker_session_timeout_ms)
        self.resignations = Resignations()
        self._rng = rng

    def follow(self, change: Change) -> None:
        """Take in a change of the store, before `load`."""
        self.image.put(change)
        self._tombstones.put(change)

    def load(self, changes: Iterable[Change], now_ms: int) -> None:
        """Load the rest of the store, and become active: every unfenced broker gets a new session.

        A fenced broker gets none, otherwise a cluster that was stopped would start only when the sessions end (CT-6).
        One that never joined gets one more session to do so."""
        for change in changes:
            self.follow(change)
        for broker in self.image.brokers.values():
            if not broker.fenced or not has_joined(self.image, broker):
                self.sessions.touch(broker.broker_id, now_ms)
                self._note_shutdown(broker)

    def apply(self, committed: Batch, now_ms: int) -> None:
        """Apply committed changes. A registration starts a session (CT-1)."""
        committed.put()
        for change in committed.changes:
            self._tombstones.put(change)
            if change.kind == "broker" and change.value is None:
                self.sessions.end(change.name)
            elif change.kind == "broker":
                broker = self.image.brokers[change.name]
                if change.version == broker.broker_epoch:
                    self.sessions.touch(broker.broker_id, now_ms)
                self._note_shutdown(broker)

    def _note_shutdown(self, broker: BrokerRegistration) -> None:
        begun = self.image.version if broker.in_controlled_shutdown else None
        self.sessions.note_shutdown(broker.broker_id, begun)

    def begin_history(self) -> Decision[None]:
        """Begins a new piece of history: without it, decisions made from two copies of a store look alike (CT-24)."""
        begun = begin(self.image.lineage, self._rng.randbytes(HISTORY_ID_SIZE), self.image.version)
        return Decision([Change("lineage", None, begun)], None)

    def check_known(self, known: Position) -> None:
        """Raises INCONSISTENT_CLUSTER_ID, or STALE_CONTROLLER_EPOCH if `known` is not in this controller's history:
        then its store is an older copy, or another one (CT-24)."""
        if known.version == 0:
            return
        if known.cluster_id != self.image.cluster_id:
            raise ErrorCode.INCONSISTENT_CLUSTER_ID.error(
                f"this is cluster {self.image.cluster_id!r} and not {known.cluster_id[:64]!r}; point the broker at its "
                "own controller. If this is it, its store was made again: put the old one back"
            )
        if not continues(self.image.lineage, self.image.version, known):
            raise ErrorCode.STALE_CONTROLLER_EPOCH.error(
                f"a broker knows version {known.version} of the metadata's history {known.history_id.hex()[:8] or '-'} "
                f"and this controller, at version {self.image.version}, does not: its store is an older copy, or "
                "another one. Records acknowledged since that copy would be lost, so it decides nothing. Stop it and "
                "put the newest store back; if that is lost: replog controller restore --help"
            )

    def register_broker(self, request: registration.Registration, now_ms: int) -> Decision[int]:
        """Answers the broker epoch (CT-1). Raises as `registration.register`."""
        left_ms = self.sessions.left_ms(request.broker_id, now_ms)
        return registration.register(self.image, self._rules, request, left_ms)

    def heartbeat(self, request: Heartbeat, now_ms: int) -> Decision[HeartbeatAnswer]:
        """Renews the session and decides (CT-3 to CT-5). End its session after an answer that orders a shutdown.

        Raises STALE_BROKER_EPOCH, INVALID_REQUEST, NOT_CONTROLLER."""
        broker = self._registered(request.sender)
        applied = request.metadata_version
        if applied < 0:
            raise ErrorCode.INVALID_REQUEST.error(f"metadata version {applied} of broker {broker.broker_id} < 0")
        self.check_version_known(applied)
        self.sessions.touch(broker.broker_id, now_ms, applied)
        self.evidence.hear(self.image, broker, request.log_ends, now_ms)
        caught_up = applied >= broker.broker_epoch  # CT-4
        current = control_state(broker)
        following = next_state(
            current,
            want_fence=request.want_fence,
            want_shutdown=request.want_shutdown,
            caught_up=caught_up,
            leads=request.want_shutdown and bool(self.image.index.led_by(broker.broker_id)),
            shutdown_seen=broker.in_controlled_shutdown
            and self.sessions.shutdown_seen(broker.broker_id, broker_events.active_brokers(self.image)),
        )
        changes = self._transition(broker, current, following)
        if following is current and request.offline:
            changes = broker_events.lose_replicas(self.image, self._rules, broker.broker_id, request.offline)
        answer = HeartbeatAnswer(
            is_caught_up=caught_up,
            is_fenced=following in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW),
            should_shutdown=following is BrokerControlState.SHUTDOWN_NOW,
        )
        return Decision(changes, answer)

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

        One at a time: each decision sees the ISRs that the previous one left (CT-6)."""
        unfenced = [broker.broker_id for broker in self.image.brokers.values() if not broker.fenced]
        for broker_id in self.sessions.in_expiry_order(unfenced)[:1]:
            if self.sessions.left_ms(broker_id, now_ms) == 0:
                broker = self.image.brokers[broker_id]
                return Decision(broker_events.fence(self.image, self._rules, broker), broker_id)
        return Decision([], None)

    def forget_unused(self, now_ms: int) -> Decision[list[int]]:
        """Forget brokers that never joined and whose sessions ended. Answers their ids (D43)."""
        gone = [b.broker_id for b in never_joined(self.image) if self.sessions.left_ms(b.broker_id, now_ms) == 0]
        return Decision([Change("broker", broker_id, None) for broker_id in gone], gone)

    def unregister_broker(self, broker_id: int) -> Decision[int]:
        return registration.unregister(self.image, broker_id)

    def fence_gone(self, broker: BrokerRegistration, now_ms: int) -> Decision[bool]:
        """Fence a process that is gone, and let its successor register at once (CT-21). False: that is done already.

        A mistake does no harm: a broker that lives learns that it is fenced, and is unfenced like any other."""
        if not self.has_its_place(broker, now_ms):
            return Decision([], False)
        self.sessions.end(broker.broker_id)
        known = self.image.brokers[broker.broker_id]
        return Decision([] if known.fenced else broker_events.fence(self.image, self._rules, known), True)

    def has_its_place(self, broker: BrokerRegistration, now_ms: int) -> bool:
        """Return True if this process, and no later one of its id, is unfenced or still has a session."""
        known = self.image.broker(broker.broker_id)
        if known is None or not is_same(known.incarnation_id, broker.incarnation_id):
            return False
        return not known.fenced or self.sessions.left_ms(broker.broker_id, now_ms) > 0

    def collect_tombstones(self, limit: int = TOMBSTONES_AT_ONCE) -> Decision[int]:
        """Forget deletions that every unfenced broker has applied, at most `limit`. Answers how many.

        A fenced broker or another watcher that knows only older metadata gets everything again."""
        unfenced = [broker.broker_id for broker in self.image.brokers.values() if not broker.fenced]
        deletions = self._tombstones.up_to(min(map(self.sessions.applied_version, unfenced), default=0), limit)
        changes = [Change("collected", None, max(deletions.values()))] if deletions else []
        return Decision(changes, len(deletions))

    def forgotten_by(self, changes: Iterable[Change]) -> list[str]:
        """Return keys that a store drops after `changes`; one that ends in "/" stands for all that begin with it."""
        forgotten: list[str] = []
        for change in changes:
            if change.kind == "collected":
                forgotten += self._tombstones.up_to(change.value)
            elif change.kind == "topic" and change.value is None:
                forgotten.append(partitions_key(change.name))
        return forgotten

    def rebalance_leaders(self) -> Decision[int]:
        """Holds preferred elections, at most `ELECTIONS_AT_ONCE`. Answers how many (CT-12)."""
        changes = evidence.rebalance(self.image, self._rules, ELECTIONS_AT_ONCE)
        return Decision(changes, len(changes))

    def recover(self, now_ms: int) -> Decision[int]:
        """Elects leaders by what replicas say of their logs (CT-12, CT-30). AGGRESSIVE waits for them one session."""
        self.evidence.forget_led(self.image)
        if not self.image.index.led_by(NO_LEADER):
            return Decision([], 0)
        patience_ms = self.sessions.timeout_ms
        return Decision(evidence.recover(self.image, self._rules, self.evidence, now_ms, patience_ms), 0)

    def log_ends(self, tp: TopicPartition) -> KnownLogEnds | None:
        """Return what replicas of a partition without a leader said; None if it has one, or is not there."""
        state = self.image.partitions.get(tp)
        if state is None or state.leader != NO_LEADER:
            return None
        now = broker_events.situation(self.image, self._rules, tp.topic, broker_events.active_brokers(self.image))
        answers = self.evidence.answers(self.image, tp)
        replicas = [(replica, replica in now.active, answers.log_ends.get(replica)) for replica in state.replicas]
        return KnownLogEnds(now.strategy, replicas, state.last_known_elr, answers.mute, answers.offline)

    def is_told(self, tp: TopicPartition) -> bool:
        """Return True if `log_ends` will not say more."""
        known = self.log_ends(tp)
        return known is None or known.is_complete

    def elect_leaders(
        self, election: Election, partitions: Iterable[TopicPartition]
    ) -> Decision[list[evidence.Elected]]:
        """Holds an election for each partition by itself (CT-11)."""
        return evidence.elect_leaders(self.image, self._rules, self.evidence, election, partitions)

    def unclean_elections(self, changes: Iterable[Change]) -> list[tuple[TopicPartition, int]]:
        """Return the partitions to which `changes`, not yet applied, give a leader that may miss committed records."""
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
        """Decides on each partition by itself (CT-14, CT-16)."""
        return reassignments.alter(self.image, self._rules, wanted)

    def list_partition_reassignments(
        self, partitions: Sequence[TopicPartition]
    ) -> list[tuple[TopicPartition, PartitionState]]:
        """Return those of `partitions` that are being reassigned; of all partitions if none is named."""
        return reassignments.ongoing(self.image, partitions or self.image.index.reassigning)

    def candidates(self, sender: Claim, proposals: Iterable[Proposal]) -> list[BrokerRegistration]:
        """Return the brokers that could lead what the sender gives away (CT-22). Raises STALE_BROKER_EPOCH."""
        self._registered(sender)
        able: set[int] = set()
        for proposal in proposals:
            state = self.image.partitions.get(proposal.topic_partition)
            if state is not None and state.leader == sender.broker_id and proposal.resigns:
                able.update(candidates(state))
        return [self.image.brokers[candidate] for candidate in sorted(able)]

    def alter_partition(
        self, sender: Claim, proposals: Iterable[Proposal], present: Set[int], now_ms: int
    ) -> Decision[list[Verdict]]:
        """Decides on ISRs (§6.4). `candidates` that are `present` may take over (CT-22). Raises STALE_BROKER_EPOCH."""
        resign = partial(self.resignations.resign, present=present, now_ms=now_ms)
        return alter_partition(self.image, self._rules, self._registered(sender), proposals, resign)

    def create_topic(self, request: topics.NewTopic) -> Decision[topics.CreatedTopic]:
        """Raises as `topics.create_topic`, and UNSUPPORTED_VERSION (CT-18, CT-20)."""
        self._check_known(request.configs)
        return topics.create_topic(self.image, self._config, request, self._rng)

    def create_partitions(self, request: topics.NewPartitions) -> Decision[int]:
        """Raises as `topics.create_partitions` (CT-18, CT-20)."""
        return topics.create_partitions(self.image, request, self._rng)

    def delete_topic(self, name: str, topic_id: bytes = b"") -> Decision[int]:
        """Raises as `topics.delete_topic` (CT-19)."""
        return topics.delete_topic(self.image, name, topic_id)

    def alter_topic_configs(self, name: str, change: configs.ConfigChange) -> Decision[configs.AlteredConfigs]:
        self._check_known(change.set)
        return configs.alter_topic_configs(self.image, self._rules, name, change)

    def _check_known(self, settings: Mapping[str, str]) -> None:
        """Raises UNSUPPORTED_VERSION: a broker of 0.1.0 stops for good at a setting that it does not know."""
        new, old = sorted(configs.SINCE_0_1_0 & settings.keys()), self.evidence.mute(self.image)
        if new and old:
            raise ErrorCode.UNSUPPORTED_VERSION.error(
                f"{new[0]}: broker {old[0]} runs release 0.1.0, which stops at a setting that is new; upgrade it first"
            )

    def alter_broker_configs(self, broker_id: int, change: configs.ConfigChange) -> Decision[configs.AlteredConfigs]:
        return configs.alter_broker_configs(self.image, broker_id, change)

    def alter_client_quotas(self, user: str, change: configs.ConfigChange) -> Decision[configs.AlteredConfigs]:
        return configs.alter_client_quotas(self.image, user, change)

    def report_audit(self, audit: StandingAudit, wall_ms: int) -> Decision[None]:
        return audits.report_audit(self.image, audit, wall_ms)

    def create_acls(self, wanted: Sequence[Acl]) -> Decision[acls.AlteredAcls]:
        self._check_authorizer()
        return acls.create_acls(self.image, wanted, self._rng)

    def delete_acls(self, filters: Sequence[AclFilter]) -> Decision[acls.AlteredAcls]:
        self._check_authorizer()
        return acls.delete_acls(self.image, filters)

    def describe_acls(self, wanted: AclFilter) -> list[Acl]:
        """Raises SECURITY_DISABLED."""
        self._check_authorizer()
        return acls.describe_acls(self.image, wanted)

    def _check_authorizer(self) -> None:
        if not self._config.authorizer_class_name:
            raise ErrorCode.SECURITY_DISABLED.error(
                "no authorizer is set here, and nobody would keep to ACLs; set authorizer.class.name on the controller "
                "and on every broker"
            )

    def allocate_producer_ids(self, sender: Claim) -> Decision[int]:
        """Answers the first of the next `BLOCK_SIZE` ids, the broker's own for ever: no id is given twice.

        Raises STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE for a fenced broker, UNKNOWN_SERVER_ERROR when all are given."""
        if self._registered(sender).fenced:
            raise ErrorCode.BROKER_NOT_AVAILABLE.error(
                f"broker {sender.broker_id} is fenced and gets no producer ids; it does once its heartbeats are back"
            )
        first = self.image.next_producer_id
        if first > MAX_PRODUCER_ID - BLOCK_SIZE:
            raise ErrorCode.UNKNOWN_SERVER_ERROR.error(f"every producer id up to {first} has been given away")
        return Decision([Change("producer_ids", None, first + BLOCK_SIZE)], first)

    def check_version_known(self, version: int) -> None:
        """Raises NOT_CONTROLLER if a caller has seen newer metadata than this controller has."""
        if version > self.image.version:
            raise ErrorCode.NOT_CONTROLLER.error(
                f"metadata version {version} is unknown here, the newest is {self.image.version}: this controller is "
                "behind, or its store was replaced by an older copy"
            )

    def _registered(self, sender: Claim) -> BrokerRegistration:
        """Check a broker's request against its registration (CT-3, INV-20).

        Raises STALE_BROKER_EPOCH, which does not say what is registered: anybody may ask."""
        broker = self.image.broker(sender.broker_id)
        is_it = broker is not None and is_same(broker.incarnation_id, sender.incarnation_id)
        if broker is not None and is_it and broker.broker_epoch == sender.broker_epoch:
            return broker
        state = "is not registered" if broker is None else "is registered by another process or under another epoch"
        raise ErrorCode.STALE_BROKER_EPOCH.error(
            f"broker {sender.broker_id} {state}, not by this one under epoch {sender.broker_epoch}; it must register"
        )


def new_cluster_id(rng: Rng) -> str:
    """Return 16 random bytes as 22 characters, like Kafka's; never one that looks like a command-line option."""
    while True:
        cluster_id = base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=")
        if not cluster_id.startswith("-"):
            return cluster_id
