"""A consumer that speaks Kafka's protocol: a fetch session with each leader, and no group."""

import asyncio
from collections.abc import Iterable
from itertools import groupby
from random import Random
from typing import Any, NamedTuple

from replog.client.consuming.subscription import LogTruncated
from replog.client.records import decode_fetched
from replog.errors import ErrorCode, ReplogError
from replog.kafka import messages
from replog.log.formats.batch import iterate_batches
from replog.log.offsets import AbortedTransaction
from replog.simulator.clients.kafka_client import FETCH, LIST_OFFSETS, KafkaClient, World
from replog.simulator.history import Poll, Read, Seek, value_of
from replog.topic import TopicPartition

FIRST, END = -2, -1  # timestamps that ListOffsets gives a meaning to
DRAIN_TIMEOUT_S = 30.0
Wanted = dict[TopicPartition, messages.FetchRequestPartition]


async def consume(name: str, rng: Random, world: World, over: asyncio.Event, truncations: list[LogTruncated]) -> None:
    """Be one reader after the other, each from the beginning; once it is `over`, one reads to the end."""
    life = 0
    while not over.is_set():
        life += 1
        client = KafkaClient(world, rng)
        reader = _Reader(world, client, f"{name}.{life}", truncations)
        ends = world.kernel.now_s + rng.uniform(3.0, 30.0)
        while world.kernel.now_s < ends and not over.is_set():
            await reader.poll()
        if over.is_set():
            await reader.read_all()
        client.close()


class _Session(NamedTuple):
    id: int
    epoch: int
    known: Wanted  # the leader has them so


class _Reader:
    def __init__(self, world: World, client: KafkaClient, name: str, truncations: list[LogTruncated]) -> None:
        self._world = world
        self._client = client
        self._name = name
        self._truncations = truncations
        self._committed = client.rng.random() < 0.5
        self._most = client.rng.choice((200, 2000, 1 << 20))
        self._positions: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}  # the last batches that were read have these
        self._sessions: dict[str, _Session] = {}

    async def read_all(self) -> None:
        """Read to the end. Raises REQUEST_TIMED_OUT."""
        until_s, ends = self._world.kernel.now_s + DRAIN_TIMEOUT_S, dict[TopicPartition, int]()
        while behind := [tp for tp in self._world.partitions if self._positions.get(tp, -1) < ends.get(tp, 1 << 62)]:
            if self._world.kernel.now_s > until_s:
                raise ErrorCode.REQUEST_TIMED_OUT.error(f"{self._name} has not read all of {behind}")
            for tp in behind:
                if tp not in ends and (end := await self._offset(tp, END)) is not None:
                    ends[tp] = end
            await self.poll()

    async def poll(self) -> None:
        """Ask each leader once, and then who leads, if anything was wrong."""
        by_leader, well = dict[str, Wanted](), True
        for tp in self._world.partitions:
            if tp not in self._positions and (first := await self._offset(tp, FIRST)) is not None:
                self._world.history.reads.append(Seek(self._name, tp))
                self._positions[tp] = first
                self._epochs.pop(tp, None)
            address, epoch = self._client.leaders.get(tp, ("", -1))
            if address and tp in self._positions:
                by_leader.setdefault(address, {})[tp] = messages.FetchRequestPartition(
                    partition=tp.partition,
                    current_leader_epoch=epoch,
                    fetch_offset=self._positions[tp],
                    last_fetched_epoch=self._epochs.get(tp, -1),
                    partition_max_bytes=self._most,
                )
            else:
                well = False
        for address, wanted in by_leader.items():
            well &= await self._fetch(address, wanted)
        if not well:
            await self._client.find_leaders({tp.topic for tp in self._world.partitions})

    async def _offset(self, tp: TopicPartition, timestamp: int) -> int | None:
        address, epoch = self._client.leaders.get(tp, ("", -1))
        row = messages.ListOffsetsRequestPartition(tp.partition, epoch, timestamp)
        topics = [messages.ListOffsetsRequestTopic(tp.topic, [row])]
        try:
            answer = address and await self._client.ask(
                address, LIST_OFFSETS, messages.ListOffsetsRequest(-1, int(self._committed), topics)
            )
        except ReplogError:
            return None
        told = answer and answer.topics[0].partitions[0]
        return told.offset if told and not told.error_code else None

    async def _fetch(self, address: str, wanted: Wanted) -> bool:
        """Return False if anything is wrong."""
        session = self._sessions.pop(address, _Session(0, 0, {}))
        news = [tp for tp, row in wanted.items() if session.known.get(tp) != row]
        gone = [tp for tp in session.known if tp not in wanted]
        request = messages.FetchRequest(
            max_wait_ms=300,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=int(self._committed),
            session_id=session.id,
            session_epoch=session.epoch,
            topics=[
                messages.FetchRequestTopic(*topic, [wanted[tp] for tp in tps]) for topic, tps in self._grouped(news)
            ],
            forgotten_topics_data=[
                messages.FetchRequestForgottenTopicsData(*topic, [tp.partition for tp in tps])
                for topic, tps in self._grouped(gone)
            ],
        )
        try:
            answer = await self._client.ask(address, FETCH, request)
        except ReplogError:
            return False
        if answer.error_code:
            return False
        if answer.session_id:
            self._sessions[address] = _Session(answer.session_id, session.epoch + 1, wanted)
        names, reads, well = {id: name for name, id in self._client.topic_ids.items()}, list[Read](), True
        for topic in answer.responses:
            for row in topic.partitions:
                tp = TopicPartition(topic.topic or names[bytes(topic.topic_id)], row.partition_index)
                well &= self._take(tp, row, reads)
        if reads:
            self._world.history.reads.append(Poll(self._name, tuple(reads), self._world.kernel.now_s, self._committed))
        return well

    def _take(self, tp: TopicPartition, row: Any, reads: list[Read]) -> bool:
        position = self._positions[tp]
        if (cut := row.diverging_epoch.end_offset) >= 0:
            self._truncations.append(LogTruncated(tp, position, cut))
            del self._positions[tp]
        elif row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            del self._positions[tp]
        elif not row.error_code and row.records:
            aborted = [AbortedTransaction(*each) for each in row.aborted_transactions or ()]
            decoded = decode_fetched(row.records, *tp, position, aborted)
            reads += [Read(tp, record.offset, value_of(record)) for record in decoded.records]
            if decoded.next_offset > position:
                self._positions[tp] = decoded.next_offset
                self._epochs[tp] = [header.leader_epoch for _, header in iterate_batches(row.records)][-1]
        return not row.error_code

    def _grouped(self, tps: Iterable[TopicPartition]) -> list[tuple[tuple[str, bytes], list[TopicPartition]]]:
        """Return topics' names and ids, each with its partitions."""
        return [((t, self._client.topic_ids[t]), list(some)) for t, some in groupby(sorted(tps), lambda tp: tp.topic)]
