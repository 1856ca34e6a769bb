"""A consumer that speaks Kafka's protocol: a fetch session with each leader, and no group."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from replog.client.consuming.subscription import LogTruncated
from replog.client.records import Record, decode_fetched
from replog.errors import ErrorCode
from replog.kafka import messages
from replog.log.formats.batch import iterate_batches
from replog.log.offsets import AbortedTransaction
from replog.simulator.clients.kafka_client import FETCH, LIST_OFFSETS, KafkaClient
from replog.simulator.cluster.kernel import Kernel
from replog.topic import TopicPartition

FIRST, END = -2, -1  # timestamps that ListOffsets gives a meaning to
Wanted = dict[TopicPartition, messages.FetchRequestPartition]
Records = list[Record]


class KafkaConsumer(KafkaClient):
    """The workload uses it as it uses a `Consumer`."""

    def __init__(self, kernel: Kernel, name: str, bootstrap: str, *, committed: bool) -> None:
        super().__init__(kernel, name, bootstrap)
        self.assignment: Sequence[TopicPartition] = ()
        self._isolation = int(committed)
        self._most = self.rng.choice((200, 2000, 1 << 20))
        self._positions: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}  # the last batches that were read have these
        self._asks = messages.FetchRequest(max_wait_ms=300, min_bytes=1, max_bytes=1 << 20, session_epoch=0)
        self._sessions: dict[str, tuple[messages.FetchRequest, Wanted]] = {}  # the leaders know them so

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self.assignment = partitions

    def seek_to_beginning(self) -> None:
        self._positions.clear()
        self._epochs.clear()

    async def position(self, partition: TopicPartition, _timeout_s: float) -> int:
        return self._positions.get(partition, -1)

    async def end_offsets(self, partitions: Sequence[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """Raises REQUEST_TIMED_OUT."""
        until_s, ends = self.kernel.now_s + timeout_s, dict[TopicPartition, int]()
        for tp in partitions:
            while (end := await self._offset(tp, END)) is None:
                if self.kernel.now_s > until_s:
                    raise ErrorCode.REQUEST_TIMED_OUT.error(f"nobody tells where {tp} ends")
                await self.find_leaders([tp.topic])
            ends[tp] = end
        return ends

    async def fetch(self, _timeout_s: float, _max_records: int | None) -> Records:
        """Ask each leader once, and then who leads, if anything was wrong. Raises LogTruncated; OFFSET_OUT_OF_RANGE."""
        by_leader, records, well = dict[str, Wanted](), Records(), True
        for tp in self.assignment:
            if tp not in self._positions and (first := await self._offset(tp, FIRST)) is not None:
                self._positions[tp] = first
            address, epoch = self.leaders.get(tp, ("", -1))
            if address and tp in self._positions:
                by_leader.setdefault(address, {})[tp] = messages.FetchRequestPartition(
                    tp.partition, epoch, self._positions[tp], self._epochs.get(tp, -1), -1, self._most
                )
            else:
                well = False
        for address, wanted in by_leader.items():
            well &= await self._fetch(address, wanted, records)
        if not well:
            await self.find_leaders({tp.topic for tp in self.assignment})
        return records

    async def _offset(self, tp: TopicPartition, timestamp: int) -> int | None:
        address, epoch = self.leaders.get(tp, ("", -1))
        row = messages.ListOffsetsRequestPartition(tp.partition, epoch, timestamp)
        topics = [messages.ListOffsetsRequestTopic(tp.topic, [row])]
        request = messages.ListOffsetsRequest(-1, self._isolation, topics)
        answer = address and await self.ask(address, LIST_OFFSETS, request)
        told = answer and answer.topics[0].partitions[0]
        return told.offset if told and not told.error_code else None

    async def _fetch(self, address: str, wanted: Wanted, records: Records) -> bool:
        """Return False if anything is wrong."""
        asks, known = self._sessions.pop(address, (self._asks, Wanted()))
        news = self._grouped(tp for tp, row in wanted.items() if known.get(tp) != row)
        gone = self._grouped(tp for tp in known if tp not in wanted)
        request = asks._replace(
            isolation_level=self._isolation,
            topics=[messages.FetchRequestTopic(*topic, [wanted[tp] for tp in tps]) for topic, tps in news],
            forgotten_topics_data=[
                messages.FetchRequestForgottenTopicsData(*topic, [tp.partition for tp in tps]) for topic, tps in gone
            ],
        )
        answer = await self.ask(address, FETCH, request)
        if answer is None or answer.error_code:
            return False
        if answer.session_id:
            asks = asks._replace(session_id=answer.session_id, session_epoch=asks.session_epoch + 1)
            self._sessions[address] = asks, wanted
        names, well = {id: name for name, id in self.topic_ids.items()}, True
        for topic in answer.responses:
            for row in topic.partitions:
                tp = TopicPartition(topic.topic or names[bytes(topic.topic_id)], row.partition_index)
                records += self._taken(tp, row)
                well &= not row.error_code
        return well

    def _taken(self, tp: TopicPartition, row: Any) -> Records:
        position = self._positions[tp]
        if (cut := row.diverging_epoch.end_offset) >= 0:
            raise LogTruncated(tp, position, cut)
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise ErrorCode.OFFSET_OUT_OF_RANGE.error(f"{tp} has no offset {position}")
        if row.error_code or not row.records:
            return []
        aborted = [AbortedTransaction(*each) for each in row.aborted_transactions or ()]
        decoded = decode_fetched(row.records, *tp, position, aborted)
        if decoded.next_offset > position:
            self._positions[tp] = decoded.next_offset
            self._epochs[tp] = [header.leader_epoch for _, header in iterate_batches(row.records)][-1]
        return decoded.records

    def _grouped(self, tps: Iterable[TopicPartition]) -> list[tuple[tuple[str, bytes], list[TopicPartition]]]:
        """Return topics' names and ids, each with its partitions."""
        return [((t, self.topic_ids[t]), list(some)) for t, some in groupby(sorted(tps), lambda tp: tp.topic)]
