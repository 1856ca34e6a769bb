"""The produce pipeline without replog, which shows the best that this machine can do.

Client → leader (CRC check, append to a file) → two followers that pull (long poll), check and append → the leader's
high watermark moves → acknowledgement. It has real processes over raw TCP on the loopback interface, `sendfile` out of
the leader's file, no fsync, and one frame a message: length, CRC-32C, payload.
"""

import multiprocessing
import os
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from crc32c import crc32c

FRAME = struct.Struct(">II")  # payload length, CRC
OFFSET = struct.Struct(">Q")  # follower → leader: next byte wanted; leader → client: messages committed
LENGTH = struct.Struct(">I")  # leader → follower: bytes that follow
MAX_FETCH = 1 << 20
FOLLOWERS = 2
DEADLINE_S = 60.0


@dataclass(slots=True)
class _Follower:
    """The leader's state of one follower's connection."""

    connection: socket.socket
    request: bytes = b""
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
                        if follower.parked and follower.position < self.end:
                            self._answer(follower, poll)
                    continue
                follower = self.followers[fd]
                if events & select.EPOLLIN and self._request(follower):
                    self._commit()
                    self._answer(follower, poll)
                elif events & select.EPOLLOUT:
                    self._send(follower, poll)

    def _receive(self) -> bool:
        """Append every whole message that has arrived. Return False if the client has gone."""
        view = memoryview(self.buffer)
        try:
            count = self.client.recv_into(view[self.filled :])
        except BlockingIOError:
            return True
        if count == 0:
            return False
        self.filled += count
        start = 0
        while self.filled - start >= FRAME.size:
            length, crc = FRAME.unpack_from(self.buffer, start)
            stop = start + FRAME.size + length
            if stop > self.filled:
                break
            if crc32c(view[start + FRAME.size : stop]) != crc:
                raise ValueError("a message arrived damaged")
            start = stop
            self.uncommitted.append(self.end + start)
        _write_fully(self.fd, view[:start])
        self.end += start
        if start:
            rest = self.filled - start
            view[:rest] = view[start : self.filled]
            self.filled = rest
        return True

    def _request(self, follower: _Follower) -> bool:
        follower.request += follower.connection.recv(OFFSET.size - len(follower.request))
        if len(follower.request) < OFFSET.size:
            return False
        (follower.position,) = OFFSET.unpack(follower.request)
        follower.request = b""
        return True

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
        try:
            if follower.head:
                follower.connection.send(follower.head, socket.MSG_MORE)
                follower.head = b""
            while follower.send_from < follower.send_to:
                follower.send_from += os.sendfile(
                    follower.connection.fileno(), self.fd, follower.send_from, follower.send_to - follower.send_from
                )
        except BlockingIOError:
            poll.modify(follower.connection, select.EPOLLIN | select.EPOLLOUT)
            return
        poll.modify(follower.connection, select.EPOLLIN)


def _write_fully(fd: int, view: memoryview) -> None:
    while view:
        view = view[os.write(fd, view) :]


def _receive_fully(connection: socket.socket, view: memoryview) -> bool:
    while view:
        count = connection.recv_into(view)
        if count == 0:
            return False
        view = view[count:]
    return True


def _run_leader(listener: socket.socket, path: Path) -> None:
    peers = []
    for _ in range(1 + FOLLOWERS):
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peers.append((connection.recv(1), connection))
    client = next(connection for role, connection in peers if role == b"c")
    _Leader(client, [connection for role, connection in peers if role == b"f"], path).run()


def _run_follower(address: tuple[str, int], path: Path) -> None:
    connection = _connect(address, b"f")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    buffer = memoryview(bytearray(LENGTH.size + FRAME.size + (MAX_FETCH << 1)))
    position = 0
    while True:
        connection.sendall(OFFSET.pack(position))
        if not _receive_fully(connection, buffer[: LENGTH.size]):
            return
        (size,) = LENGTH.unpack_from(buffer)
        body = buffer[:size]
        if not _receive_fully(connection, body):
            return
        start = 0
        while start < size:
            length, crc = FRAME.unpack_from(body, start)
            start += FRAME.size + length
            if crc32c(body[start - length : start]) != crc:
                raise ValueError("a message arrived damaged")
        _write_fully(fd, body)
        position += size


def _connect(address: tuple[str, int], role: bytes) -> socket.socket:
    connection = socket.create_connection(address, timeout=DEADLINE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(role)
    return connection


class RawPipeline:
    """The client of the pipeline, and the pipeline's processes."""

    def __init__(self, connection: socket.socket, processes: dict[str, BaseProcess]) -> None:
        self._connection = connection
        self._received = b""
        self._sent = 0
        self._committed = 0
        self.pids = {name: process.pid or 0 for name, process in processes.items()}

    def produce(self, message_bytes: int, messages: int, in_flight: int) -> float:
        """Send messages as fast as they are acknowledged, `in_flight` at a time. Return the seconds that it took."""
        payload = os.urandom(message_bytes)
        frame = FRAME.pack(message_bytes, crc32c(payload)) + payload
        last, started = self._sent + messages, time.perf_counter()
        while self._committed < last:
            while self._sent < last and self._sent - self._committed < in_flight:
                self._connection.sendall(frame)
                self._sent += 1
            self._wait_for_acknowledgement()
        return time.perf_counter() - started

    def pace(self, message_bytes: int, messages: int, per_second: float) -> list[float]:
        """Send messages at a fixed rate. Return the seconds that each took from when it was due."""
        payload = os.urandom(message_bytes)
        frame = FRAME.pack(message_bytes, crc32c(payload)) + payload
        due: deque[float] = deque()
        taken = []
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


@contextmanager
def raw_pipeline(directory: Path) -> Iterator[RawPipeline]:
    """Run a leader and two followers with their files in `directory`."""
    context = multiprocessing.get_context("spawn")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        processes: dict[str, BaseProcess] = {
            "leader": context.Process(target=_run_leader, args=(listener, directory / "leader.log"), daemon=True)
        }
        for number in range(1, FOLLOWERS + 1):
            path = directory / f"follower-{number}.log"
            processes[f"follower {number}"] = context.Process(target=_run_follower, args=(address, path), daemon=True)
        for process in processes.values():
            process.start()
        try:
            connection = _connect(address, b"c")
            with connection:
                yield RawPipeline(connection, processes)
        finally:
            for process in processes.values():
                process.join(2)
                process.kill()
                process.join(2)
