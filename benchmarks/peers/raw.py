"""Raw sockets: the produce pipeline without replog, which shows the best that this machine can do.

Client → leader (CRC check, append to a file) → two followers that pull (long poll), check and append → the leader's
high watermark moves → acknowledgement. It has real processes over TCP on the loopback interface, `sendfile` out of the
leader's file, no fsync, and one frame a message: length, CRC-32C, payload.
"""

import asyncio
import contextlib
import multiprocessing
import os
import select
import socket
import struct
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from crc32c import crc32c

from benchmarks.peers.peer import CLIENT, Settings

FRAME = struct.Struct(">II")  # payload length, CRC
OFFSET = struct.Struct(">Q")  # follower → leader: next byte wanted; leader → client: messages committed
LENGTH = struct.Struct(">I")  # leader → follower: bytes that follow
MAX_FETCH = 1 << 20
FOLLOWERS = ("follower 1", "follower 2")
DEADLINE_S = 60.0
IN_FLIGHT = 16
WARM_UP = (1 << 20, 32)  # bytes of a message, messages


@dataclass(slots=True)
class _Follower:
    """The leader's state of one follower's connection."""

    connection: socket.socket
    position: int = 0
    parked: bool = False
    head: bytes = b""
    send_from: int = 0
    send_to: int = 0


class _Leader:
    """Appends what the client sends, and serves followers, with one thread and one epoll."""

    def __init__(self, client: socket.socket, followers: list[socket.socket], path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self.client = client
        self.followers = {connection.fileno(): _Follower(connection) for connection in followers}
        self.buffer = bytearray(FRAME.size + (MAX_FETCH << 1))
        self.filled = 0
        self.end = 0
        self.uncommitted: deque[int] = deque()  # the end of each message
        self.committed = 0

    def run(self) -> None:
        poll = select.epoll()
        for connection in (self.client, *(f.connection for f in self.followers.values())):
            connection.setblocking(False)
            poll.register(connection, select.EPOLLIN)
        while True:
            for fd, events in poll.poll(DEADLINE_S):
                if fd == self.client.fileno():
                    if not self._receive():
                        return
                    for follower in self.followers.values():
                        if follower.parked:
                            self._answer(follower, poll)
                    continue
                follower = self.followers[fd]
                if events & select.EPOLLIN:
                    (follower.position,) = OFFSET.unpack(follower.connection.recv(OFFSET.size))
                    self._commit()
                    self._answer(follower, poll)
                elif events & select.EPOLLOUT:
                    self._send(follower, poll)

    def _receive(self) -> bool:
        """Append every whole message that has arrived. Return False if the client has gone."""
        view = memoryview(self.buffer)
        count = self.client.recv_into(view[self.filled :])
        self.filled += count
        start = 0
        while self.filled - start >= FRAME.size:
            length, crc = FRAME.unpack_from(self.buffer, start)
            stop = start + FRAME.size + length
            if stop > self.filled:
                break
            _check(view[start + FRAME.size : stop], crc)
            start = stop
            self.uncommitted.append(self.end + start)
        _write_fully(self.fd, view[:start])
        self.end += start
        if start:
            rest = self.filled - start
            view[:rest] = view[start : self.filled]
            self.filled = rest
        return count > 0

    def _commit(self) -> None:
        high_watermark = min(follower.position for follower in self.followers.values())
        before = self.committed
        while self.uncommitted and self.uncommitted[0] <= high_watermark:
            self.uncommitted.popleft()
            self.committed += 1
        if self.committed > before:
            self.client.send(OFFSET.pack(self.committed))

    def _answer(self, follower: _Follower, poll: select.epoll) -> None:
        """Send whole messages up to `MAX_FETCH`, at least one; park the follower if there is none."""
        follower.parked = follower.position >= self.end
        if follower.parked:
            return
        stop = follower.position
        for boundary in self.uncommitted:
            if boundary > follower.position:
                if boundary - follower.position > MAX_FETCH and stop > follower.position:
                    break
                stop = boundary
        follower.head = LENGTH.pack(stop - follower.position)
        follower.send_from, follower.send_to = follower.position, stop
        self._send(follower, poll)

    def _send(self, follower: _Follower, poll: select.epoll) -> None:
        wanted = select.EPOLLIN
        try:
            if follower.head:
                follower.connection.send(follower.head, socket.MSG_MORE)
                follower.head = b""
            while (left := follower.send_to - follower.send_from) > 0:
                follower.send_from += os.sendfile(follower.connection.fileno(), self.fd, follower.send_from, left)
        except BlockingIOError:
            wanted |= select.EPOLLOUT
        poll.modify(follower.connection, wanted)


def _check(payload: memoryview, crc: int) -> None:
    if crc32c(payload) != crc:
        raise ValueError("a message arrived damaged")


def _write_fully(fd: int, view: memoryview) -> None:
    while view:
        view = view[os.write(fd, view) :]


def _receive_fully(connection: socket.socket, view: memoryview) -> bool:
    """Fill the view, and return False if the connection has ended."""
    while view:
        count = connection.recv_into(view)
        if count == 0:
            return False
        view = view[count:]
    return True


def _run_leader(listener: socket.socket, path: Path) -> None:
    peers: dict[bytes, list[socket.socket]] = {b"c": [], b"f": []}
    for _ in (CLIENT, *FOLLOWERS):
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peers[connection.recv(1)].append(connection)
    _Leader(peers[b"c"][0], peers[b"f"], path).run()


def _run_follower(address: tuple[str, int], path: Path) -> None:
    connection = _connect(address, b"f")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    buffer = memoryview(bytearray(LENGTH.size + FRAME.size + (MAX_FETCH << 1)))
    position = 0
    while True:
        connection.sendall(OFFSET.pack(position))
        if not _receive_fully(connection, buffer[: LENGTH.size]):
            return
        body = buffer[: LENGTH.unpack_from(buffer)[0]]
        if not _receive_fully(connection, body):
            return
        start = 0
        while start < len(body):
            length, crc = FRAME.unpack_from(body, start)
            start += FRAME.size + length
            _check(body[start - length : start], crc)
        _write_fully(fd, body)
        position += len(body)


def _connect(address: tuple[str, int], role: bytes) -> socket.socket:
    connection = socket.create_connection(address, timeout=DEADLINE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(role)
    return connection


class RawPeer:
    """One log, with messages of 1 MiB or of a record, and this process as its client, with the methods of a
    `ClusterPeer`; there is no consumer."""

    name = "raw sockets"
    defaults = Settings()
    warm_up_mb = 1  # each topic's processes are warmed up by themselves

    def __init__(self, home: Path) -> None:
        self._home = home
        self._processes: dict[str, BaseProcess] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await self.end("")

    @property
    def pids(self) -> Mapping[str, int]:
        return {name: process.pid or 0 for name, process in self._processes.items()} | {CLIENT: os.getpid()}

    async def make(self, topic: str) -> None:
        """Start processes for the topic, with files of their own, and use all their buffers once."""
        directory = self._home / topic
        directory.mkdir(parents=True)
        context = multiprocessing.get_context("spawn")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = listener.getsockname()
            works: dict[str, tuple[Callable[..., None], object]] = {"leader": (_run_leader, listener)}
            for name, (run, where) in (works | dict.fromkeys(FOLLOWERS, (_run_follower, address))).items():
                self._processes[name] = context.Process(target=run, args=(where, directory / name), daemon=True)
                self._processes[name].start()
            self._connection = await asyncio.to_thread(_connect, address, b"c")
        self._received, self._sent, self._committed = b"", 0, 0
        await asyncio.to_thread(self._produce, *WARM_UP)

    async def end(self, topic: str) -> None:
        if self._processes:
            self._connection.close()
        for process in self._processes.values():
            process.join(2)
            process.kill()
            process.join(2)
        self._processes = {}

    async def produce(self, topic: str, record_bytes: int, records: int, settings: Settings) -> float:
        message = settings.batch_bytes or record_bytes
        return await asyncio.to_thread(self._produce, message, record_bytes * records // message)

    async def pace(
        self, topic: str, record_bytes: int, records: int, per_second: float, settings: Settings
    ) -> Sequence[float]:
        return await asyncio.to_thread(self._pace, record_bytes, records, per_second)

    async def consume(self, topic: str, record_bytes: int, records: int) -> float:
        raise NotImplementedError(f"{self.name} have no consumer")

    def _produce(self, message_bytes: int, messages: int) -> float:
        """Send messages as fast as they are acknowledged, `IN_FLIGHT` at a time. Return the seconds that it took."""
        frame = _frame(message_bytes)
        last, started = self._sent + messages, time.perf_counter()
        while self._committed < last:
            while self._sent < last and self._sent - self._committed < IN_FLIGHT:
                self._connection.sendall(frame)
                self._sent += 1
            self._wait_for_acknowledgement()
        return time.perf_counter() - started

    def _pace(self, message_bytes: int, messages: int, per_second: float) -> list[float]:
        """Send messages at a fixed rate. Return the seconds that each took from when it was due."""
        frame = _frame(message_bytes)
        due: deque[float] = deque()
        taken: list[float] = []
        first = time.perf_counter() + 0.01
        for number in range(messages):
            at = first + number / per_second
            while (wait := at - time.perf_counter()) > 0:
                if select.select([self._connection], [], [], wait)[0]:
                    taken += self._acknowledged(due)
            self._connection.sendall(frame)
            self._sent += 1
            due.append(at)
        while due:
            taken += self._acknowledged(due)
        return taken

    def _acknowledged(self, due: deque[float]) -> list[float]:
        before = self._committed
        self._wait_for_acknowledgement()
        now = time.perf_counter()
        return [now - due.popleft() for _ in range(self._committed - before)]

    def _wait_for_acknowledgement(self) -> None:
        chunk = self._connection.recv(1 << 16)
        if not chunk:
            raise ConnectionError("the leader has gone")
        self._received += chunk
        whole = len(self._received) // OFFSET.size * OFFSET.size
        if whole:
            (self._committed,) = OFFSET.unpack_from(self._received, whole - OFFSET.size)
            self._received = self._received[whole:]


def _frame(size: int) -> bytes:
    payload = os.urandom(size)
    return FRAME.pack(size, crc32c(payload)) + payload
