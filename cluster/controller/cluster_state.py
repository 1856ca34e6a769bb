"""The controller's mind: metadata, sessions, and every decision. Pure: time and chance are handed in.

A decision changes nothing here but sessions, and when leaders have resigned. Its records are to be made durable first,
then given to `apply`, and then put into `records`, where watchers find them.
"""

import random
from collections.abc import Iterable, Sequence, Set
from functools import partial

from cluster.controller import (
    broker_events,
    configs,
    leader_elections,
    producer_ids,
    reassignments,
    registration,
    topics,
)
from cluster.controller.alter_partition import alter_partition
from cluster.controller.broker_lifecycle import BrokerControlState, Sessions, control_state, next_state
from cluster.controller.current_records import CurrentRecords
from cluster.controller.elections import Election, was_unclean
from cluster.controller.records import Decision, collected_record
from cluster.controller.resignations import Resignations, heirs
from cluster.metadata_image import Change, MetadataImage
from replog.config import ControllerConfig
from replog.errors import ErrorCode, ReplogError
from replog.metadata import Broker
from replog.rpc.v1 import controller_pb2, metadata_pb2
from replog.topic import TopicPartition

ELECTIONS_AT_ONCE = 500  # bounds one commit of the controller's own elections,
TOMBSTONES_AT_ONCE = 5000  # and one that forgets deletions


class ClusterState:
    """One cluster. `chance` makes topic ids and placements."""

    def __init__(self, config: ControllerConfig, chance: random.Random) -> None:
        self.image = MetadataImage()
        self.records = CurrentRecords()
        self._config = config
        self._rules = broker_events.Rules(
            config.min_insync_replicas, config.eligible_leader_replicas_enable, config.unclean_leader_election_enable
        )
        self._sessions = Sessions(config.broker_session_timeout_ms)
        self.resignations = Resignations()
        self._chance = chance

    def load(self, records: Sequence[metadata_pb2.MetadataRecord], now_ms: int) -> None:
        """Take in a store's records: this controller becomes active, and every unfenced broker gets a fresh session.

        A fenced one has none until its first heartbeat, so that a cluster that was stopped starts without delay (CT-6).
        """
        for record in records:
            self.image.apply(record)
        self.records.put(records)
        for broker in self.image.brokers.values():
            if not broker.fenced:
                self._sessions.touch(broker.broker_id, now_ms)
                self._note_shutdown(broker)

    def apply(self, changes: Sequence[Change], now_ms: int) -> None:
        """Take in what has been committed, in version order. A registration starts a session (CT-1)."""
        for change in changes:
            self.image.put(change)
        for change in changes:
            if change.kind == "broker":
                broker = self.image.brokers[change.name]
                if change.version == broker.broker_epoch:
                    self._sessions.touch(broker.broker_id, now_ms)
                self._note_shutdown(broker)

    def _note_shutdown(self, broker: Broker) -> None:
        begun = self.image.version if broker.in_controlled_shutdown else None
        self._sessions.note_shutdown(broker.broker_id, begun)

    def excuse_silence(self, by_ms: int) -> None:
        """The controller itself did not run for so long; that is held against no broker."""
        self._sessions.extend(by_ms)

    def register_broker(
        self, request: controller_pb2.RegisterBrokerRequest, now_ms: int
    ) -> Decision[controller_pb2.RegisterBrokerResponse]:
        """CT-1. Raises as `registration.register`."""
        left_ms = self._sessions.left_ms(request.broker_id, now_ms)
        decision = registration.register(self.image, self._rules, request, left_ms)
        decision.answer.session_timeout_ms = self._sessions.timeout_ms
        return decision

    def heartbeat(
        self, request: controller_pb2.HeartbeatRequest, now_ms: int
    ) -> Decision[controller_pb2.HeartbeatResponse]:
        """CT-3 to CT-5. Touches the session and decides; `let_go` is to follow an answer that says to shut down.

        Raises STALE_BROKER_EPOCH, INVALID_REQUEST, NOT_CONTROLLER.
        """
        broker = self._registered(request.broker_id, request.broker_epoch)
        applied = request.metadata_version
        if applied < 0:
            raise ReplogError(ErrorCode.INVALID_REQUEST, f"metadata version {applied} of broker {broker.broker_id} < 0")
        self.check_version_known(applied)
        self._sessions.touch(broker.broker_id, now_ms, applied)
        caught_up = applied >= broker.broker_epoch  # CT-4
        current = control_state(broker)
        following = next_state(
            current,
            want_fence=request.want_fence,
            want_shutdown=request.want_shutdown,
            caught_up=caught_up,
            leads=request.want_shutdown and broker_events.leads_something(self.image, broker.broker_id),
            shutdown_seen=broker.in_controlled_shutdown
            and self._sessions.shutdown_seen(broker.broker_id, broker_events.active_brokers(self.image)),
        )
        records = self._transition(broker, current, following)
        answer = controller_pb2.HeartbeatResponse(
            is_caught_up=caught_up,
            is_fenced=following in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW),
            should_shutdown=following is BrokerControlState.SHUTDOWN_NOW,
        )
        return Decision(records, answer)

    def let_go(self, broker_id: int) -> None:
        """It was told to stop: its successor need not wait for the session to expire."""
        self._sessions.end(broker_id)

    def _transition(
        self, broker: Broker, current: BrokerControlState, following: BrokerControlState
    ) -> Iterable[metadata_pb2.MetadataRecord | None]:
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
        """Fence the unfenced broker whose session ended first, and answer its id; None when no session has ended.

        One at a time: each decision sees the ISRs that the one before it left (CT-6).
        """
        unfenced = [broker.broker_id for broker in self.image.brokers.values() if not broker.fenced]
        for broker_id in self._sessions.in_expiry_order(unfenced)[:1]:
            if self._sessions.left_ms(broker_id, now_ms) == 0:
                broker = self.image.brokers[broker_id]
                return Decision(broker_events.fence(self.image, self._rules, broker), broker_id)
        return Decision([], None)

    def fence_gone(self, broker: Broker) -> Decision[bool]:
        """The process is gone: fence it now, and let its successor register at once (CT-21); False if it has come back.

        Nothing rests on its being so: a broker that lives hears that it is fenced, and is unfenced as any other.
        """
        known = self.image.broker(broker.broker_id)
        if known is None or known.incarnation_id != broker.incarnation_id or known.fenced:
            return Decision([], False)
        self._sessions.end(known.broker_id)
        return Decision(broker_events.fence(self.image, self._rules, known), True)

    def collect_tombstones(self, limit: int = TOMBSTONES_AT_ONCE) -> Decision[int]:
        """Forget deletions that every unfenced broker has applied, a bounded number; answers how many.

        Whoever comes back from before that, a fenced broker or another watcher, is given everything anew.
        """
        unfenced = [broker.broker_id for broker in self.image.brokers.values() if not broker.fenced]
        keys = self.records.tombstones(self._sessions.applied_by_all(unfenced), limit)
        return Decision([collected_record(self.records.version_of(keys[-1]))] if keys else [], len(keys))

    def forgotten_by(self, changes: Iterable[Change]) -> list[str]:
        """Keys of which nothing is kept once `changes` are."""
        versions = (change.value for change in changes if change.kind == "collected")
        return [key for version in versions for key in self.records.tombstones(version)]

    def rebalance_leaders(self) -> Decision[int]:
        """Preferred elections, a bounded number; answers how many (CT-12)."""
        records = leader_elections.rebalance(self.image, self._rules, ELECTIONS_AT_ONCE)
        return Decision(records, len(records))

    def retry_unclean_elections(self) -> Decision[int]:
        """Leaders for partitions whose topics allow unclean ones, a bounded number; answers how many (CT-12)."""
        records = leader_elections.retry_unclean(self.image, self._rules, ELECTIONS_AT_ONCE)
        return Decision(records, len(records))

    def elect_leaders(
        self, election: Election, partitions: Iterable[TopicPartition]
    ) -> Decision[list[controller_pb2.ElectLeadersResult]]:
        """CT-11, each partition by itself."""
        return leader_elections.elect_leaders(self.image, self._rules, election, partitions)

    def unclean_elections(self, changes: Iterable[Change]) -> list[tuple[TopicPartition, int]]:
        """Which of `changes`, not yet applied, give a partition a leader that may miss committed records."""
        found = []
        for _, _, kind, tp, new in changes:
            if kind == "partition" and new is not None and new.recovering:
                old = self.image.partitions.get(tp)
                if old is not None and was_unclean(old, new):
                    found.append((tp, new.leader))
        return found

    def alter_partition_reassignments(
        self, partitions: Iterable[controller_pb2.ReassignablePartition]
    ) -> Decision[list[controller_pb2.AlterPartitionReassignmentResult]]:
        """CT-14, CT-16, each partition by itself."""
        return reassignments.alter(self.image, self._rules, partitions)

    def list_partition_reassignments(
        self, partitions: Sequence[TopicPartition]
    ) -> Decision[controller_pb2.ListPartitionReassignmentsResponse]:
        """Those of `partitions`, or of all when none is named, that are being reassigned."""
        return Decision([], reassignments.ongoing(self.image, partitions or self.image.index.reassigning))

    def heirs(self, request: controller_pb2.AlterPartitionRequest) -> list[Broker]:
        """Who could lead what the sender gives away by this request (CT-22). Raises STALE_BROKER_EPOCH."""
        sender = self._registered(request.broker_id, request.broker_epoch)
        found: set[int] = set()
        for item in request.partitions:
            state = self.image.partitions.get(TopicPartition(item.topic, item.partition))
            resigns = all(member.broker_id != sender.broker_id for member in item.new_isr)
            if resigns and state is not None and state.leader == sender.broker_id:
                found.update(heirs(state))
        return [self.image.brokers[broker_id] for broker_id in sorted(found)]

    def alter_partition(
        self,
        broker_id: int,
        broker_epoch: int,
        items: Iterable[controller_pb2.AlterPartitionItem],
        present: Set[int],
        now_ms: int,
    ) -> Decision[list[controller_pb2.AlterPartitionResult]]:
        """§6.4; of the `heirs` those that are `present` may take over (CT-22). Raises STALE_BROKER_EPOCH."""
        sender = self._registered(broker_id, broker_epoch)
        resign = partial(self.resignations.resign, present=present, now_ms=now_ms)
        return alter_partition(self.image, self._rules, sender, items, resign)

    def create_topic(self, request: controller_pb2.CreateTopicRequest) -> Decision[controller_pb2.CreateTopicResponse]:
        """CT-18, CT-20. Raises as `topics.create_topic`."""
        return topics.create_topic(self.image, self._config, request, self._chance)

    def delete_topic(self, request: controller_pb2.DeleteTopicRequest) -> Decision[controller_pb2.DeleteTopicResponse]:
        """CT-19. Raises as `topics.delete_topic`."""
        return topics.delete_topic(self.image, request)

    def alter_topic_configs(
        self, request: controller_pb2.AlterTopicConfigsRequest
    ) -> Decision[controller_pb2.AlterConfigsResponse]:
        """Raises as `configs.alter_topic_configs`."""
        return configs.alter_topic_configs(self.image, self._rules, request)

    def alter_broker_configs(
        self, request: controller_pb2.AlterBrokerConfigsRequest
    ) -> Decision[controller_pb2.AlterConfigsResponse]:
        """Raises as `configs.alter_broker_configs`."""
        return configs.alter_broker_configs(self.image, request)

    def allocate_producer_ids(
        self, request: controller_pb2.AllocateProducerIdsRequest
    ) -> Decision[controller_pb2.AllocateProducerIdsResponse]:
        """The next block, for a broker that serves. Raises as `producer_ids.allocate`, and STALE_BROKER_EPOCH."""
        return producer_ids.allocate(self.image, self._registered(request.broker_id, request.broker_epoch))

    def check_version_known(self, version: int) -> None:
        """Raises NOT_CONTROLLER when somebody has seen more metadata than this controller has."""
        if version > self.image.version:
            raise ReplogError(
                ErrorCode.NOT_CONTROLLER,
                f"metadata version {version} is unknown here, the newest is {self.image.version}: this controller is "
                "behind, or its store was replaced by an older copy",
            )

    def _registered(self, broker_id: int, broker_epoch: int) -> Broker:
        """Every request of a broker is checked against its registration (CT-3, INV-20)."""
        broker = self.image.broker(broker_id)
        if broker is None or broker.broker_epoch != broker_epoch:
            found = "is not registered" if broker is None else f"is registered with epoch {broker.broker_epoch}"
            raise ReplogError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"broker {broker_id} {found}, not {broker_epoch}; another process took the id, or it must register",
            )
        return broker
