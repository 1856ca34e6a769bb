"""One partition's leader behind a network that fails by the seed, in virtual time: a real log, no sockets.

Requests of a stream arrive in order or not at all. The leader may refuse them before or after the append, its answers
may come out of order or get lost with their stream, it may restart cleanly and forget a producer that knows the
outcome of all that it sent, and another may take over that lacks what was not committed."""

import asyncio
import io
import random
import selectors
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replog.config.topic import TopicConfig
from replog.errors import ErrorCode, ReplogError
from replog.log.log import Log
from replog.rpc.codec import WithRecords
from replog.rpc.methods import Method
from replog.rpc.status import wire_code
from replog.rpc.v1 import log_pb2
from tests.replog.client.decoding import decode

ADDRESSES = ("one:1", "two:2")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Where it would wait, time passes at once."""

    def __init__(self) -> None:
        super().__init__(_NoWait(self._pass))
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def _pass(self, seconds: float) -> None:
        self._now += seconds


class _NoWait(selectors.DefaultSelector):
    def __init__(self, passed: Callable[[float], None]) -> None:
        super().__init__()
        self._passed = passed

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "nothing is left to happen"
        self._passed(max(0.0, timeout))
        return super().select(0)


class Network:
    """A `Transport`. While `trouble` lasts, things go wrong; the log is at `log`."""

    def __init__(self, directory: Path, rng: random.Random) -> None:
        self.trouble = True
        self.knows_all: Callable[[], bool] = lambda: False  # whether the producer knows of all that it has in the log
        self.rng = rng
        self.leader = 0  # index of its address
        self.epoch = 0
        self.committed = 0
        self.faults: dict[str, int] = {}
        self.streams: list[_Stream] = []
        self._ids = 0
        self._directory = directory
        self.log = self._open(0)

    def _open(self, recovery_point: int) -> Log:
        config = TopicConfig.parse({}, "test")
        return Log.open(self._directory, config, clean=True, recovery_point=recovery_point)

    def values(self) -> list[bytes | None]:
        path = self._directory / "00000000000000000000.log"
        return [record.value for record in decode(path.read_bytes())]

    def connect(self, address: str) -> "_Channel":
        return _Channel(self, address)

    def happens(self, what: str, probability: float) -> bool:
        if not self.trouble or self.rng.random() >= probability:
            return False
        self.faults[what] = self.faults.get(what, 0) + 1
        return True

    async def make_trouble(self) -> None:
        """Until cancelled: streams break, leaders change, brokers restart."""
        while True:
            await asyncio.sleep(self.rng.uniform(0.0, 0.4))
            if self.happens("streams broken", 0.5):
                self.break_streams()
            if self.happens("restarts", 0.15):
                self.break_streams()
                self.log.close()
                self.log = self._open(self.log.log_end_offset)
                if self.knows_all() and self.happens("producers forgotten", 0.5):
                    self.log.producers.clear()
            if self.happens("leaders changed", 0.2):
                self.leader, self.epoch = 1 - self.leader, self.epoch + 1
                if self.happens("leaders changed with a loss", 0.5):
                    self.log.truncate_to(self.rng.randint(self.committed, self.log.log_end_offset))

    def break_streams(self) -> None:
        for stream in self.streams:
            stream.cancel()
        self.streams.clear()

    def metadata(self) -> log_pb2.GetMetadataResponse:
        partition = log_pb2.PartitionMetadata(partition=0, leader=self.leader, leader_epoch=self.epoch)
        return log_pb2.GetMetadataResponse(
            brokers=[log_pb2.BrokerMetadata(broker_id=i, address=address) for i, address in enumerate(ADDRESSES)],
            topics=[log_pb2.TopicMetadata(topic="t", partitions=[partition])],
        )

    def next_id(self) -> log_pb2.InitProducerIdResponse:
        self._ids += 1
        return log_pb2.InitProducerIdResponse(producer_id=self._ids)

    def append(self, address: str, records: bytes) -> tuple[ErrorCode, int]:
        """What the broker at `address` makes of one batch."""
        if ADDRESSES[self.leader] != address:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        if self.happens("refused", 0.1):
            return ErrorCode.NOT_ENOUGH_REPLICAS, -1
        if b"too large" in records:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        try:
            info = self.log.append_as_leader(records, leader_epoch=self.epoch, now_ms=time.time_ns() // 1_000_000)
        except ReplogError as error:
            self.faults[error.code.name] = self.faults.get(error.code.name, 0) + 1
            return error.code, -1
        if self.happens("not known to be committed", 0.1):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1
        return ErrorCode.NONE, info.first_offset


class _Channel:
    def __init__(self, network: Network, address: str) -> None:
        self.address = address
        self._network = network

    async def call(self, method: Method, _request: Any, _timeout_s: float) -> Any:
        await asyncio.sleep(self._network.rng.uniform(0.0, 0.01))
        if self._network.happens("calls lost", 0.2):
            raise ReplogError(ErrorCode.NETWORK_EXCEPTION, "lost")
        return self._network.metadata() if method.handler_name == "get_metadata" else self._network.next_id()

    def open(self, _method: Method) -> "_Stream":
        stream = _Stream(self._network, self.address)
        self._network.streams.append(stream)
        return stream

    async def close(self) -> None: ...


class _Stream:
    def __init__(self, network: Network, address: str) -> None:
        self._network = network
        self._address = address
        self._answers: asyncio.Queue[log_pb2.ProduceResponse | None] = asyncio.Queue()
        self._arrives = 0.0  # when the last request does: they stay in order
        self._broken = False

    def post(self, request: WithRecords[log_pb2.ProduceRequest]) -> None:
        loop = asyncio.get_running_loop()
        self._arrives = max(self._arrives, loop.time() + self._network.rng.uniform(0.0, 0.02))
        records = io.BytesIO(b"".join(request.records))
        sent = request.head, [records.read(partition.records_size) for partition in request.head.partitions]
        loop.call_at(self._arrives, self._arrived, *sent)

    def _arrived(self, head: log_pb2.ProduceRequest, records: list[bytes]) -> None:
        if self._broken:
            return
        answer = log_pb2.ProduceAnswer(correlation_id=head.correlation_id)
        ends = []
        for partition, batch in zip(head.partitions, records, strict=True):
            code, offset = self._network.append(self._address, batch)
            answer.partitions.add(
                topic="t", partition=partition.partition, error_code=wire_code(code), base_offset=offset
            )
            if code is ErrorCode.NONE:
                ends.append(self._network.log.log_end_offset)
        delay_s = self._network.rng.uniform(0.0, 0.02)
        asyncio.get_running_loop().call_later(delay_s, self._answer, answer, self._network.epoch, max(ends, default=0))

    def _answer(self, answer: log_pb2.ProduceAnswer, epoch: int, end: int) -> None:
        if self._broken:
            return
        if epoch != self._network.epoch:  # deposed before it was committed
            for result in answer.partitions:
                result.error_code, result.base_offset = wire_code(ErrorCode.NOT_LEADER_OR_FOLLOWER), -1
        else:
            self._network.committed = max(self._network.committed, end)
        self._answers.put_nowait(log_pb2.ProduceResponse(answers=[answer]))

    async def each(self, handle: Callable[[log_pb2.ProduceResponse], None]) -> None:
        while (answer := await self._answers.get()) is not None:
            handle(answer)
        raise ReplogError(ErrorCode.NETWORK_EXCEPTION, "broken")

    def cancel(self) -> None:
        self._broken = True
        self._answers.put_nowait(None)
