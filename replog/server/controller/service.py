"""The Controller service: one method for each rpc, from a message to a decision and back. Whole calls fail with
ReplogError; errors of a partition are in the answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from replog.common.acl import Operation
from replog.controller.alter_partition import Proposal, Verdict
from replog.controller.broker_events import OfflineReplica
from replog.controller.broker_lifecycle import Heartbeat
from replog.controller.cluster_state import BLOCK_SIZE
from replog.controller.configs import AlteredConfigs, ConfigChange
from replog.controller.decision import Decision
from replog.controller.elections import Election
from replog.controller.evidence import Elected, Report
from replog.controller.reassignments import Reassignment
from replog.controller.registration import Registration
from replog.controller.topics import NewPartitions, NewTopic
from replog.errors import ErrorCode, ReplogError
from replog.metadata.log_ends import LogEnd
from replog.metadata.records import (
    acl_filter_of,
    acl_of_binding,
    acl_to_binding,
    audit_from_record,
    audit_to_record,
    endpoints_from_messages,
    partition_to_record,
    position_from_message,
    position_to_message,
)
from replog.metadata.values import NO_LEADER, Claim, is_same
from replog.release import OLDEST_FEATURE_LEVEL, Release
from replog.rpc import methods
from replog.rpc.codec import same_fields
from replog.rpc.limits import fitting
from replog.rpc.peer import peer
from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1 import metadata_pb2
from replog.server.controller.active_controller import ActiveController
from replog.server.work import in_slices
from replog.topic import TopicPartition

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

LISTED_CHANGES = 2000  # an answer with so many takes less than a MiB
LOT = 250  # partitions of a commit take some 20 ms
_ELECTIONS = {pb.PREFERRED: Election.PREFERRED, pb.UNCLEAN: Election.UNCLEAN}
_PREVIOUS = ("previous_broker_epoch", "previous_incarnation_id")
_REGISTRATION = ("cluster_id", "broker_id", "incarnation_id", "address", "rack", *_PREVIOUS)

_Name = pb.PartitionName | TopicPartition
_Claims = pb.HeartbeatRequest | pb.AlterPartitionRequest | pb.AllocateProducerIdsRequest


class ControllerService:
    """Handlers for `replog.v1.Controller`."""

    def __init__(self, controller: ActiveController) -> None:
        self._controller, self._state = controller, controller.state

    async def register_broker(self, request: pb.RegisterBrokerRequest) -> pb.RegisterBrokerResponse:
        self._controller.check_known(position_from_message(request.known))
        state = self._state
        release = Release(
            request.software_version,
            request.oldest_feature_level or OLDEST_FEATURE_LEVEL,  # release 0.1.0 has no levels
            request.newest_feature_level or OLDEST_FEATURE_LEVEL,
        )
        Release().check_fits(release, f"broker {request.broker_id}")
        registration = Registration(
            **same_fields(request, _REGISTRATION),
            endpoints=endpoints_from_messages(request.endpoints),
            release=release,
            missing=[(missing.topic_id, missing.partitions) for missing in request.missing],
        )
        broker_epoch = await self._controller.register(registration)
        return pb.RegisterBrokerResponse(
            cluster_id=state.image.cluster_id, broker_epoch=broker_epoch, session_timeout_ms=state.sessions.timeout_ms
        )

    async def unregister_broker(self, request: pb.UnregisterBrokerRequest) -> pb.UnregisterBrokerResponse:
        version = await self._decided(self._state.unregister_broker, request.broker_id)
        return pb.UnregisterBrokerResponse(metadata_version=version)

    async def heartbeat(self, request: pb.HeartbeatRequest) -> pb.HeartbeatResponse:
        self._controller.check_known(position_from_message(request.known))
        with self._claimed(request, "heartbeat") as sender:
            heartbeat = Heartbeat(
                sender=sender,
                metadata_version=request.metadata_version,
                want_fence=request.want_fence,
                want_shutdown=request.want_shutdown,
                offline=tuple(
                    OfflineReplica(TopicPartition(r.topic, r.partition), r.topic_id, r.is_gone) for r in request.offline
                ),
                log_ends=tuple(map(_report, request.log_ends)) if request.tells_log_ends else None,
            )
            answer = await self._controller.heartbeat(heartbeat)
        wall_ms = self._controller.clock.wall_ms()  # brokers compare theirs with it (CT-28)
        return pb.HeartbeatResponse(**answer._asdict(), wall_ms=wall_ms)

    async def alter_partition(self, request: pb.AlterPartitionRequest) -> pb.AlterPartitionResponse:
        self._controller.check_known(position_from_message(request.known))
        with self._claimed(request, "alter_partition") as sender:
            proposed = partial(_proposal, request.broker_id, request.known.version)
            present = await self._controller.present_candidates(sender, map(proposed, request.partitions))
            results = await self._in_lots(
                request.partitions,
                lambda lot, now_ms: self._state.alter_partition(sender, map(proposed, lot), present, now_ms),
                _verdict,
                f"broker {request.broker_id} asked",
            )
        return pb.AlterPartitionResponse(partitions=results, position=position_to_message(self._state.image.position))

    def watch_metadata(self, request: pb.WatchMetadataRequest) -> AsyncIterator[pb.MetadataDelta]:
        return self._controller.watch(request)

    async def create_topic(self, request: pb.CreateTopicRequest) -> pb.CreateTopicResponse:
        topic = NewTopic(
            topic=request.topic,
            partitions=request.partitions,
            replication_factor=request.replication_factor,
            configs=dict(request.configs),
            assignment=[replicas.broker_ids for replicas in request.assignment],
            validate_only=request.validate_only,
            topic_id=request.topic_id,
        )
        created = await self._decided(self._state.create_topic, topic)
        return pb.CreateTopicResponse(**created._asdict())

    async def create_partitions(self, request: pb.CreatePartitionsRequest) -> pb.CreatePartitionsResponse:
        wanted = NewPartitions(
            topic=request.topic,
            total=request.total_count,
            assignment=[replicas.broker_ids for replicas in request.assignment],
            validate_only=request.validate_only,
        )
        version = await self._decided(self._state.create_partitions, wanted)
        return pb.CreatePartitionsResponse(metadata_version=version)

    async def allocate_producer_ids(self, request: pb.AllocateProducerIdsRequest) -> pb.AllocateProducerIdsResponse:
        with self._claimed(request, "allocate_producer_ids") as sender:
            first = await self._decided(self._state.allocate_producer_ids, sender)
        return pb.AllocateProducerIdsResponse(first_producer_id=first, count=BLOCK_SIZE)

    async def delete_topic(self, request: pb.DeleteTopicRequest) -> pb.DeleteTopicResponse:
        version = await self._decided(self._state.delete_topic, request.topic, request.topic_id)
        return pb.DeleteTopicResponse(metadata_version=version)

    async def alter_topic_configs(self, request: pb.AlterTopicConfigsRequest) -> pb.AlterConfigsResponse:
        why = f"settings of the topic, {_asked()}"
        return await self._altered(self._state.alter_topic_configs, request.topic, request, why)

    async def alter_broker_configs(self, request: pb.AlterBrokerConfigsRequest) -> pb.AlterConfigsResponse:
        return await self._altered(self._state.alter_broker_configs, request.broker_id, request)

    async def alter_client_quotas(self, request: pb.AlterClientQuotasRequest) -> pb.AlterConfigsResponse:
        return await self._altered(self._state.alter_client_quotas, request.user, request)

    async def _altered(
        self,
        alter: Callable[[Any, ConfigChange], Decision[AlteredConfigs]],
        whose: str | int,
        request: Any,
        why: str = "",
    ) -> pb.AlterConfigsResponse:
        change = ConfigChange(dict(request.set), list(request.delete), request.validate_only)
        altered = await self._decided(alter, whose, change, why=why)
        return pb.AlterConfigsResponse(configs=altered.configs, metadata_version=altered.metadata_version)

    async def describe_client_quotas(self, request: pb.DescribeClientQuotasRequest) -> pb.DescribeClientQuotasResponse:
        quotas = self._state.image.client_quotas
        shown = [metadata_pb2.ClientQuotaRecord(user=user, configs=quotas[user]) for user in sorted(quotas)]
        return fitting(pb.DescribeClientQuotasResponse(quotas=shown), request.max_bytes)

    async def report_audit(self, request: metadata_pb2.AuditRecord) -> pb.ReportAuditResponse:
        await self._decided(self._state.report_audit, audit_from_record(request), self._controller.clock.wall_ms())
        return pb.ReportAuditResponse()

    async def describe_audit(self, _: pb.DescribeAuditRequest) -> pb.DescribeAuditResponse:
        audit = self._state.image.audit
        return pb.DescribeAuditResponse(audit=None if audit is None else audit_to_record(audit))

    async def elect_leaders(self, request: pb.ElectLeadersRequest) -> pb.ElectLeadersResponse:
        if request.all_partitions and request.partitions:
            raise ErrorCode.INVALID_REQUEST.error("all partitions, or some by name, but not both")
        election = _ELECTIONS.get(request.election_type)
        if election is None:
            raise ErrorCode.INVALID_REQUEST.error(f"there is no election type {request.election_type}")
        state = self._state
        wanted: Sequence[_Name] = list(state.image.partitions) if request.all_partitions else request.partitions
        if election is Election.UNCLEAN:
            await self._controller.wait_for_log_ends(_names(wanted))
        why = f"{election.name.lower()} election, {_asked()}"
        results = await self._in_lots(wanted, lambda lot, _: state.elect_leaders(election, _names(lot)), _elected, why)
        if request.all_partitions:
            results = [result for result in results if result.error_code != int(ErrorCode.ELECTION_NOT_NEEDED)]
        return pb.ElectLeadersResponse(partitions=results)

    async def describe_log_ends(self, request: pb.DescribeLogEndsRequest) -> pb.DescribeLogEndsResponse:
        state, answer = self._state, pb.DescribeLogEndsResponse()
        await self._controller.wait_for_log_ends(_names(request.partitions))
        self._controller.check_active()
        async for tp in in_slices(_names(request.partitions) or list(state.image.index.led_by(NO_LEADER))):
            known = state.log_ends(tp)
            if known is not None:
                described = answer.partitions.add(topic=tp.topic, partition=tp.partition, strategy=known.strategy)
                for broker_id, is_live, end in known.replicas:
                    said = {} if end is None else {**end._asdict(), "is_known": True}
                    described.replicas.add(
                        broker_id=broker_id,
                        is_live=is_live,
                        had_everything=broker_id in known.had_everything,
                        is_offline=broker_id in known.offline,
                        **said,
                    )
        return fitting(answer, request.max_bytes)

    async def alter_partition_reassignments(
        self, request: pb.AlterPartitionReassignmentsRequest
    ) -> pb.AlterPartitionReassignmentsResponse:
        results = await self._in_lots(
            request.partitions,
            lambda lot, _: self._state.alter_partition_reassignments(
                _reassignment(item, request.throttle) for item in lot
            ),
            _reassignment_result,
            f"move, {_asked()}",
        )
        return pb.AlterPartitionReassignmentsResponse(partitions=results, throttle=request.throttle)

    async def list_partition_reassignments(
        self, request: pb.ListPartitionReassignmentsRequest
    ) -> pb.ListPartitionReassignmentsResponse:
        names, state = _names(request.partitions), self._state
        ongoing = await self._controller.decide(lambda _: Decision([], state.list_partition_reassignments(names)))
        answer = pb.ListPartitionReassignmentsResponse(
            partitions=[
                pb.OngoingPartitionReassignment(
                    topic=tp.topic,
                    partition=tp.partition,
                    replicas=moving.replicas,
                    adding_replicas=moving.adding,
                    removing_replicas=moving.removing,
                    throttle=moving.throttle,
                )
                for tp, moving in ongoing
            ]
        )
        return fitting(answer, request.max_bytes)

    async def describe_partition_changes(
        self, request: pb.DescribePartitionChangesRequest
    ) -> pb.DescribePartitionChangesResponse:
        self._controller.check_active()
        return pb.DescribePartitionChangesResponse(
            kept_since_ms=self._controller.decides_since_ms,
            changes=[
                pb.PartitionChange(
                    version=change.version,
                    at_ms=change.at_ms,
                    reason=change.reason,
                    before=partition_to_record(change.topic_partition, b"", change.before),
                    after=partition_to_record(change.topic_partition, b"", change.after),
                )
                for change in self._controller.history.after(request.after_version, LISTED_CHANGES)
            ],
        )

    async def create_acls(self, request: pb.CreateAclsRequest) -> pb.CreateAclsResponse:
        created = await self._decided(self._state.create_acls, [acl_of_binding(binding) for binding in request.acls])
        return pb.CreateAclsResponse(created=created.altered, metadata_version=created.metadata_version)

    async def delete_acls(self, request: pb.DeleteAclsRequest) -> pb.DeleteAclsResponse:
        deleted = await self._decided(self._state.delete_acls, [acl_filter_of(each) for each in request.filters])
        return pb.DeleteAclsResponse(deleted=deleted.altered, metadata_version=deleted.metadata_version)

    async def describe_acls(self, request: pb.DescribeAclsRequest) -> pb.DescribeAclsResponse:
        wanted, state = acl_filter_of(request.filter), self._state
        acls = await self._controller.decide(lambda _: Decision([], state.describe_acls(wanted)))
        return fitting(pb.DescribeAclsResponse(acls=map(acl_to_binding, acls)), request.max_bytes)

    async def _decided(self, decide: Callable[..., Decision[A]], *arguments: Any, why: str = "") -> A:
        """Have a decision made that does not need the time, and return its answer."""
        return await self._controller.decide(lambda _: decide(*arguments), why)

    @contextmanager
    def _claimed(self, request: _Claims, method: str) -> Iterator[Claim]:
        """Have the audit log say who is registered instead of the sender, which its answer does not say."""
        sender = Claim(request.broker_id, request.broker_epoch, request.incarnation_id)
        try:
            yield sender
        except ReplogError as error:
            if error.code is ErrorCode.STALE_BROKER_EPOCH:
                known = self._state.image.broker(sender.broker_id)
                is_it = known is not None and is_same(known.incarnation_id, sender.incarnation_id)
                shown = f"epoch {sender.broker_epoch} and {'the' if is_it else 'another'} incarnation id"
                broker, rule = f"BROKER:{sender.broker_id}", f"it showed {shown}; registered is {known}"
                path = methods.Controller[method].path
                self._controller.audit.denied(peer(), Operation.CLUSTER_ACTION.name, broker, path, rule)
            raise

    async def _in_lots(
        self,
        items: Sequence[A],
        decide: Callable[[Sequence[A], int], Decision[list[B]]],
        answer: Callable[[A, B], C],
        why: str,
    ) -> list[C]:
        """Decide on all items in lots, each one commit, so that heartbeats get in between. Return all answers."""
        results: list[C] = []
        for first in range(0, len(items) or 1, LOT):
            lot = items[first : first + LOT]
            decided: list[B] = await self._controller.decide(partial(decide, lot), why)
            results += map(answer, lot, decided)
            await asyncio.sleep(0)  # otherwise lots that change nothing would hold the loop
        return results


def _asked() -> str:
    return f"asked for by {peer().principal}"


def _names(partitions: Iterable[_Name]) -> list[TopicPartition]:
    return [TopicPartition(name.topic, name.partition) for name in partitions]


def _report(message: pb.ReplicaLogEnd) -> Report:
    log_end = None if message.is_offline else LogEnd(message.last_epoch, message.end_offset)
    return Report(message.topic_id, message.partition, message.leader_epoch, log_end)


def _proposal(sender: int, known: int, item: pb.AlterPartitionItem) -> Proposal:
    return Proposal(
        topic_partition=TopicPartition(item.topic, item.partition),
        topic_id=item.topic_id,
        sender=sender,
        leader_epoch=item.leader_epoch,
        partition_epoch=item.partition_epoch,
        isr=tuple((member.broker_id, member.broker_epoch) for member in item.new_isr),
        recovering=item.recovery_state != metadata_pb2.RECOVERED,
        known=known,
    )


def _verdict(item: pb.AlterPartitionItem, verdict: Verdict) -> pb.AlterPartitionResult:
    tp, state = TopicPartition(item.topic, item.partition), verdict.state
    record = None if state is None else partition_to_record(tp, item.topic_id, state)
    return pb.AlterPartitionResult(topic=tp.topic, partition=tp.partition, error_code=verdict.error.name, state=record)


def _elected(name: _Name, elected: Elected) -> pb.ElectLeadersResult:
    return pb.ElectLeadersResult(
        topic=name.topic,
        partition=name.partition,
        error_code=elected.error.code.name,
        error_message=elected.error.message,
        leader=elected.leader,
    )


def _reassignment(item: pb.ReassignablePartition, throttle: int) -> Reassignment:
    target = item.target.broker_ids if item.HasField("target") else None
    return Reassignment(TopicPartition(item.topic, item.partition), target, throttle)


def _reassignment_result(item: pb.ReassignablePartition, error: ReplogError) -> pb.AlterPartitionReassignmentResult:
    return pb.AlterPartitionReassignmentResult(
        topic=item.topic, partition=item.partition, error_code=error.code.name, error_message=error.message
    )
