"""Sends the leaders' ISR proposals to the controller and returns the answers (ISR-8)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from leader.isr import AfterRefusal, AlterPartitionQueue, IsrProposal, after_refusal
from replog.common.backoff import Backoff
from replog.errors import ErrorCode, ReplogError
from replog.metadata.records import partition_from_record, position_from_message
from replog.metadata.values import PartitionState
from replog.rpc import methods
from replog.rpc.transport import Channel
from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1 import metadata_pb2
from replog.server.broker.control.newest_metadata import NewestMetadata
from replog.server.broker.identity import Identity
from replog.server.logging import Trouble, log_each
from replog.topic import TopicPartition

log = structlog.get_logger()

OnResult = Callable[[TopicPartition, IsrProposal, ErrorCode, PartitionState | None], None]


@dataclass(eq=False)
class AlterPartitionSender:
    """Has one request in flight, with the oldest proposals. Undecided ones are sent again after a backoff."""

    _identity: Identity
    _channel: Channel
    _topic_id: Callable[[TopicPartition], bytes]
    _known: NewestMetadata
    _timeout_s: float
    _backoff: Backoff
    _trouble: Trouble = field(default_factory=Trouble)
    _queue: AlterPartitionQueue = field(default_factory=AlterPartitionQueue)
    _topic_ids: dict[TopicPartition, bytes] = field(default_factory=dict)  # when each was proposed: names may be reused
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def submit(self, tp: TopicPartition, proposal: IsrProposal) -> bool:
        """Return False if a proposal for this partition is under way already."""
        if not self._queue.submit(tp, proposal):
            return False
        self._topic_ids[tp] = self._topic_id(tp)
        self._wake.set()
        return True

    async def run(self, on_result: OnResult) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while (batch := self._queue.next_batch()) is not None:
                await self._send(batch, on_result)

    async def _send(self, batch: dict[TopicPartition, IsrProposal], on_result: OnResult) -> None:
        proposed = [
            {"partition": str(tp), "isr": [id for id, _ in proposal.isr], "log_ends": proposal.log_ends}
            for tp, proposal in batch.items()
        ]
        log_each(log.info, "proposing ISR", proposed)
        request = pb.AlterPartitionRequest(
            **self._identity.claim(),
            partitions=[
                pb.AlterPartitionItem(
                    topic=tp.topic,
                    topic_id=self._topic_ids[tp],
                    partition=tp.partition,
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.partition_epoch,
                    new_isr=[pb.IsrMember(broker_id=member, broker_epoch=epoch) for member, epoch in proposal.isr],
                    recovery_state=metadata_pb2.RECOVERED,  # ST-15
                )
                for tp, proposal in batch.items()
            ],
            known=self._known.message,
        )
        try:
            response = await self._channel.call(methods.Controller["alter_partition"], request, self._timeout_s)
        except ReplogError as error:
            self._trouble.log(log.info, "AlterPartition failed, retrying", error)
            self._queue.on_failure()
            await asyncio.sleep(self._backoff.next_s())
            return
        self._trouble.over()
        # A smaller ISR counts now. Otherwise an older copy of the metadata could elect a replica that left it (CT-24).
        await self._known.note(position_from_message(response.position))
        results = {TopicPartition(result.topic, result.partition): result for result in response.partitions}
        taken = self._queue.on_answer(results)
        undecided = len(taken) < len(batch)
        refused: list[dict[str, object]] = []
        for tp, proposal in taken.items():
            del self._topic_ids[tp]
            result = results[tp]
            error_code = ErrorCode(result.error_code)
            state = partition_from_record(result.state) if error_code is ErrorCode.NONE else None
            if error_code is not ErrorCode.NONE:
                refused.append({"partition": str(tp), "error": error_code.name})
                undecided |= after_refusal(error_code) is AfterRefusal.RESUBMIT
            on_result(tp, proposal, error_code, state)
        log_each(log.info, "ISR change refused", refused)
        if undecided:  # otherwise the same proposals would be sent again at once
            await asyncio.sleep(self._backoff.next_s())
        else:
            self._backoff.reset()
