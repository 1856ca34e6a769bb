"""Transactions in the simulated logs, which understand them though brokers take none from clients (divergence 19).

There is no coordinator: what it and its producers would write is appended directly at the leader, in a step of its
process and as far as its role allows (PR-3). The answer comes once the high watermark has passed. If it is missing,
the transaction is aborted under the producer's next epoch, by markers that are tried again until one is committed."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from replog.client.producing.deliveries import RecordMetadata
from replog.client.records import encode_batch
from replog.errors import ErrorCode, ReplogError
from replog.log.formats.batch import HEADER, HEADER_SIZE, TRANSACTIONAL, parse_header, with_crc
from replog.log.formats.control_batch import EndTransactionMarker, build_end_transaction_marker
from replog.log.offsets import NO_TIMESTAMP, AppendOrigin
from replog.simulator.cluster.kernel import Kernel
from replog.simulator.cluster.members import BrokerMember
from replog.simulator.history import History, ProducerSend, Transaction
from replog.simulator.runtime.process import Killed
from replog.topic import TopicPartition

KEYS = tuple(b"key %d" % number for number in range(6))  # every record in a compacted topic has one of them
FIRST_PRODUCER_ID = 1 << 40  # the controller never assigns ids as high as this
PATIENCE_S = 2.0  # an append's time limit; a session or lag timeout and an election take less
POLL_S = 0.02


@dataclass
class Transactor:
    """One producer, and the coordinator of its transactions."""

    _kernel: Kernel
    _members: Mapping[int, BrokerMember]
    _history: History
    _partitions: Sequence[TopicPartition]
    _producer_id: int
    _stop: asyncio.Event
    _epoch: int = 0
    _sequences: dict[TopicPartition, int] = field(default_factory=dict)

    async def run(self, name: str, rng: Random) -> None:
        """Write one transaction after the other until the stop; none is open when this returns."""
        number = 0
        while not self._stop.is_set():
            transaction = Transaction()
            sent: dict[ProducerSend, int | None] = {}
            for _ in range(rng.randint(1, 4)):
                number += 1
                value = b"%s %d %s" % (name.encode(), number, b"." * rng.randrange(120))
                send = ProducerSend(
                    name, rng.choice(self._partitions), value, -1, True, self._kernel.now_s, transaction=transaction
                )
                send.key = rng.choice(KEYS) if send.partition.topic in self._history.compacted else None
                self._history.sends.append(send)
                sent[send] = await self._append(send.partition, self._batch(send), AppendOrigin.CLIENT, rng)
                if sent[send] is None:
                    break
                self._sequences[send.partition] = self._sequences.get(send.partition, 0) + 1
                await asyncio.sleep(rng.expovariate(4.0))
            commit = None not in sent.values() and rng.random() < 0.6
            await self._end(transaction, [send.partition for send in sent], rng, commit=commit)
            for send, offset in sent.items():
                if commit and offset is not None:
                    where = RecordMetadata(send.partition.topic, send.partition.partition, offset, NO_TIMESTAMP)
                    self._history.acknowledged(send, where, self._kernel.now_s)
            await asyncio.sleep(rng.expovariate(2.0))
        await self._end(Transaction(), self._partitions, rng, commit=False)  # an unclean election may lose a marker

    def _batch(self, record: ProducerSend) -> bytes:
        data = encode_batch([(self._kernel.wall_ms(), record.key, record.value, ())])
        header = parse_header(data)._replace(
            producer_id=FIRST_PRODUCER_ID + self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences.get(record.partition, 0),
        )
        payload = bytes(data[HEADER_SIZE:])
        return HEADER.pack(*with_crc(header._replace(attributes=header.attributes | TRANSACTIONAL), payload)) + payload

    async def _end(
        self, transaction: Transaction, partitions: Sequence[TopicPartition], rng: Random, *, commit: bool
    ) -> None:
        if not commit:  # the new epoch fences appends that are still under way (PS-3)
            self._epoch += 1
            self._sequences.clear()
        transaction.committed, transaction.decided_s = commit, self._kernel.now_s
        self._kernel.trace.add("transaction ends", commit=commit, partitions=list(dict.fromkeys(map(str, partitions))))
        for tp in dict.fromkeys(partitions):
            marker = build_end_transaction_marker(
                EndTransactionMarker(commit, 0),
                producer_id=FIRST_PRODUCER_ID + self._producer_id,
                producer_epoch=self._epoch,
                timestamp=self._kernel.wall_ms(),
            )
            while await self._append(tp, marker, AppendOrigin.COORDINATOR, rng) is None:
                await asyncio.sleep(rng.uniform(0.05, 0.5))

    async def _append(self, tp: TopicPartition, records: bytes, origin: AppendOrigin, rng: Random) -> int | None:
        """Return the offset at which the records are committed; None: nobody knows whether they are."""
        leaders = [member for member in self._members.values() if member.running and _leads(member, tp)]
        if not leaders:
            return None
        member = rng.choice(leaders)
        task = self._kernel.loop.spawn(member.process, _carry_out(member, tp, records, origin))
        await asyncio.wait([task], timeout=PATIENCE_S)
        if task.done():
            return task.result() if not isinstance(task.exception(), Killed) else None
        task.cancel()  # a marker that came later would end another transaction
        return None


def _leads(member: BrokerMember, tp: TopicPartition) -> bool:
    """Return True if the broker believes that it leads the partition."""
    hosted = member.broker.replicas.hosted.get(tp) if member.broker is not None else None
    return hosted is not None and hosted.leader is not None


async def _carry_out(member: BrokerMember, tp: TopicPartition, records: bytes, origin: AppendOrigin) -> int | None:
    """Append in the leader's process, and wait for the commit. Return the first offset; None if the leader refuses, or
    loses its leadership before the commit."""
    if member.broker is None:
        return None
    manager = member.broker.manager
    leader = manager.replicas.leader(tp)
    if isinstance(leader, ErrorCode) or len(leader.state.isr) < leader.min_insync_replicas:
        return None
    epoch, log = leader.leader_epoch, leader.log
    if (log.epochs.latest_epoch or 0) > epoch or not log.settled:
        return None
    try:
        now_ms = manager.context.clock.monotonic_ms()
        wall_ms, apart_ms = manager.context.time.of_append(now_ms)
        info = log.append_as_leader(records, leader_epoch=epoch, now_ms=wall_ms, apart_ms=apart_ms, origin=origin)
        manager.touched(tp, leader.advance_high_watermark(now_ms))
    except ReplogError:
        return None

    def leads_on() -> bool:
        return manager.replicas.leader(tp) is leader and leader.leader_epoch == epoch

    while log.high_watermark <= info.last_offset and leads_on():
        await asyncio.sleep(POLL_S)
    return info.first_offset if leads_on() else None
