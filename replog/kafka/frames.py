"""One connection of Kafka's protocol without I/O: bytes in, requests out; answers in any order in, pieces out in the
order of the requests. No socket, clock or loop.

A frame is its size in four bytes, a header, a message. A size is only a promise: the room for a frame is at most
`GROWS` times what has arrived of it. A shell reads large frames straight into `place`.

| | What holds at any time |
|---|---|
| a frame in hand | has at most as many bytes as its API may; a larger one is a `failure` before it has any room |
| whole frames that wait | came with the last read; a shell reads no more while there are some |
| requests under way | are at most `MAX_UNDER_WAY`, of about `MOST_ASKED` bytes, answers of `MOST_UNSENT`: others wait |
| after a `failure` | no more is taken, and what came before is still there, and leaves |
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from struct import Struct
from typing import Any, NamedTuple

from replog.common.buffers import unwritten
from replog.kafka.codec import decode_request, decode_response, encode_request, encode_response
from replog.kafka.errors import BadFrame
from replog.kafka.primitives import uvarint
from replog.kafka.schema import read_schema
from replog.kafka.versions import APIS
from replog.log.offsets import Buffer

MAX_UNDER_WAY = 64
CLIENT_ID = 256  # characters that are kept
GROWS = 8
SMALL = 1024  # bytes of room that the first few of a frame get
LARGE = 64 << 10  # a frame that lacks so much is read into its place
PRODUCE, API_VERSIONS = 0, 18
MOST_UNSENT = 1 << 20  # bytes of answers that wait; beyond, requests wait, too
MOST_ASKED = 1 << 20  # bytes of requests that are not answered, apart from produces, which do not keep their records
MOST_TAGS = 100  # a header has no more
_BEGIN = 6  # bytes that say what a frame may have: its size and its API
_NOWHERE = memoryview(b"")
_HEADER, _ANSWER = Struct(">hhih"), Struct(">ii")


class Request(NamedTuple):
    number: int  # counts the requests of its connection
    key: int
    version: int
    correlation_id: int
    client_id: str
    message: Any  # None: the version, or the API, is not served
    size: int


class Frames:
    """Splits what arrives into frames."""

    def __init__(self, most: Callable[[int], int]) -> None:
        """`most` returns how many bytes a frame may have that begins with these two."""
        self.failure = ""  # the reason why no more is taken
        self._waiting = list[memoryview]()  # whole frames, without their size; an empty deque would take 600 bytes
        self._taken = 0  # so many of them are taken
        self._rest: Buffer = b""  # more frames, which are cut when those before are taken
        self._most = most
        self._begun = b""  # the first bytes of a frame, fewer than _BEGIN
        self._size = 0  # the frame in hand has so many bytes; 0: there is none
        self._room = _NOWHERE
        self._arrived = 0

    @property
    def waits(self) -> bool:
        """True if there is a whole frame."""
        return bool(self._waiting)

    def held(self) -> int:
        """Return the bytes of memory of frames that are incomplete, or wait."""
        return len(self._room) + len(self._rest) + sum(map(len, self._waiting))

    def _take(self) -> memoryview:
        frame, self._waiting[self._taken] = self._waiting[self._taken], _NOWHERE
        self._taken += 1
        if self._taken == len(self._waiting):
            self._split(memoryview(self._drop_waiting()))
        return frame

    def _drop_waiting(self) -> Buffer:
        rest, self._waiting, self._taken, self._rest = self._rest, [], 0, b""
        return rest

    def place(self) -> memoryview | None:
        """Return the place for the next bytes, if a large frame is in hand."""
        if self._size - self._arrived < LARGE or self._rest:
            return None
        self._grow(1)
        return self._room[self._arrived :]

    def landed(self, size: int) -> None:
        """Take `size` bytes that are in `place`."""
        self._arrived += size
        self._end_frame()

    def receive(self, data: Buffer) -> None:
        """Take `data`, and keep no reference to it. A wrong frame is a `failure`, never raised."""
        before, self._begun = self._begun, b""
        if self._rest:
            self._rest = bytes(self._rest) + bytes(data)
        else:
            self._split(memoryview(before + data if before else data))

    def _split(self, rest: memoryview) -> None:
        while rest and not self.failure:
            if len(self._waiting) >= MAX_UNDER_WAY:
                self._rest = bytes(rest)
                return
            if not self._size:
                if len(rest) < _BEGIN:
                    self._begun = bytes(rest)
                    return
                rest = self._begin_frame(rest)
            else:
                part = rest[: self._size - self._arrived]
                self._grow(len(part))
                self._room[self._arrived : self._arrived + len(part)] = part
                self._arrived += len(part)
                rest = rest[len(part) :]
                self._end_frame()

    def _begin_frame(self, rest: memoryview) -> memoryview:
        size, kind = int.from_bytes(rest[:4], "big", signed=True), int.from_bytes(rest[4:6], "big", signed=True)
        most = self._most(kind)
        if not 4 <= size <= most:
            self.failure = f"a frame that begins with {bytes(rest[:_BEGIN])!r} says {size} bytes; 4 to {most} may come"
        elif len(rest) >= 4 + size:
            self._waiting.append(memoryview(bytes(rest[4 : 4 + size])))
            return rest[4 + size :]
        else:
            self._size = size
        return rest[4:]

    def _grow(self, more: int) -> None:
        """Have room for `more` bytes, and for further ones in proportion to what has arrived."""
        if len(self._room) - self._arrived < more:
            room = memoryview(unwritten(min(self._size, max(SMALL, GROWS * (self._arrived + more)))))
            room[: self._arrived] = self._room[: self._arrived]
            self._room = room

    def _end_frame(self) -> None:
        if self._arrived == self._size:
            self._waiting.append(self._room)
            self._room, self._size, self._arrived = _NOWHERE, 0, 0


class _Answer:
    __slots__ = ("asked", "correlation_id", "gone", "pieces", "ready")

    def __init__(self, correlation_id: int, asked: int) -> None:
        self.correlation_id = correlation_id
        self.asked = asked  # bytes of the request
        self.ready = False
        self.pieces = deque[Buffer]()
        self.gone: Callable[[], None] | None = None


class ServerFrames(Frames):
    """The side of a broker."""

    def __init__(self, serves: Callable[[int, int], bool], most: Callable[[int], int]) -> None:
        """`serves` returns whether a version of an API is served."""
        super().__init__(most)
        self._serves = serves
        self.gone: list[Callable[[], None]] = []  # a shell calls those of answers that have left, and clears the list
        self._answers: dict[int, _Answer] = {}  # requests under way have one each, by their numbers
        self._first = 0  # the number of the first of them
        self._unsent = self._asked = 0

    @property
    def under_way(self) -> int:
        """The number of requests whose answer has not left."""
        return len(self._answers)

    @property
    def next_key(self) -> int:
        """The API of the first request that waits."""
        return int.from_bytes(self._waiting[self._taken][:2], "big")

    def next(self) -> Request | None:
        """Return the next request; None if there is none, if too much is under way, or when it is a `failure`."""
        if not self._waiting or len(self._answers) >= MAX_UNDER_WAY:
            return None
        if self._unsent > MOST_UNSENT or self._asked > MOST_ASKED:
            return None
        frame = self._take()
        key = version = -1
        try:
            if len(frame) < _HEADER.size:
                raise BadFrame(f"{len(frame)} bytes are no header")
            key, version, correlation_id, length = _HEADER.unpack_from(frame)
            end = _HEADER.size + max(0, length)
            if end > len(frame) or length < -1:
                raise BadFrame(f"{len(frame)} bytes are no header with a client id of {length}")
            client_id = str(frame[_HEADER.size : end], errors="replace")[:CLIENT_ID]
            message = None
            if self._serves(key, version):
                message = decode_request(key, version, _body(frame, end, is_flexible(key, version)))
        except BadFrame as error:
            self.failure = f"a request of API {key}, version {version}, is wrong: {error}"
            self._drop_waiting()
            return None
        number = self._first + len(self._answers)
        asked = 0 if key == PRODUCE else len(frame)
        self._answers[number] = _Answer(correlation_id, asked)
        self._asked += asked
        return Request(number, key, version, correlation_id, client_id, message, len(frame))

    def answer(self, number: int, pieces: Sequence[Buffer] | None, gone: Callable[[], None] | None = None) -> bool:
        """Answer a request, once: with a body and its header's tags; None: not at all. `gone` is for the list of this
        name. Return True if there is something to send now."""
        answer = self._answers[number]
        answer.ready, answer.gone = True, gone
        if pieces is not None:
            size = 4 + sum(map(len, pieces))
            answer.pieces.append(_ANSWER.pack(size, answer.correlation_id))
            answer.pieces.extend(pieces)
            self._unsent += 4 + size
        return number == self._first

    @property
    def has_to_send(self) -> bool:
        return bool(self._answers) and self._answers[self._first].ready

    def to_send(self, size: int) -> list[Buffer]:
        """Return the next pieces to write, of `size` bytes at most."""
        pieces = list[Buffer]()
        while size and self.has_to_send:
            left = self._answers[self._first].pieces
            while left and size:
                piece = left.popleft()
                if len(piece) > size:
                    left.appendleft(memoryview(piece)[size:])
                    piece = memoryview(piece)[:size]
                pieces.append(piece)
                size -= len(piece)
                self._unsent -= len(piece)
            if left:
                break
            self._forget_first()
        return pieces

    def _forget_first(self) -> None:
        answer = self._answers.pop(self._first)
        self._first += 1
        self._asked -= answer.asked
        if not self._answers:
            self._answers = {}  # the old one keeps the memory of all that it had
        if answer.gone is not None:
            self.gone.append(answer.gone)

    def drop(self) -> None:
        """Nothing leaves any more: `gone` gets those of all answers."""
        while self._answers:
            self._forget_first()
        self._drop_waiting()
        self._room, self._size, self._arrived = _NOWHERE, 0, 0


class ClientFrames(Frames):
    """The side of a client."""

    def __init__(self, client_id: str, most: int) -> None:
        super().__init__(lambda _: most)
        self._client_id = client_id.encode()
        self._asked = deque[tuple[int, int]]()
        self._next = 0  # the correlation id of the next request

    def ask(self, key: int, version: int, message: Any) -> list[Buffer]:
        """Return the pieces of a request."""
        head = _HEADER.pack(key, version, self._next, len(self._client_id)) + self._client_id
        pieces = [head + b"\0" * is_flexible(key, version), *encode_request(key, version, message)]
        self._asked.append((key, version))
        self._next += 1
        return [sum(map(len, pieces)).to_bytes(4, "big"), *pieces]

    def answers(self) -> Iterator[tuple[int, Any]]:
        """Yield the answers that have arrived, each with the number of its request, which counts from 0.

        Raises BadFrame for one that does not parse, or that nobody asked for."""
        while self._waiting:
            frame = self._take()
            number = self._next - len(self._asked)
            if not self._asked or int.from_bytes(frame[:4], "big") != number:
                raise BadFrame(f"an answer to request {bytes(frame[:4]).hex()} came; {number} is next")
            key, version = self._asked.popleft()
            has_tags = is_flexible(key, version) and key != API_VERSIONS
            yield number, decode_response(key, version, _body(frame, 4, has_tags))


def answer_body(key: int, version: int, response: Any) -> list[Buffer]:
    """Return a response, after the tags of its header if it has some: that of ApiVersions never has (KIP-511)."""
    pieces = encode_response(key, version, response)
    return [b"\0", *pieces] if is_flexible(key, version) and key != API_VERSIONS else pieces


@cache
def is_flexible(key: int, version: int) -> bool:
    """Return True if messages of this version, and their headers, have tags."""
    return version in read_schema(APIS[key].name)[0].flexible


def _body(frame: memoryview, at: int, has_tags: bool) -> memoryview:
    """Return what is behind the tags of a header; nobody has given any a meaning."""
    try:
        tags, at = uvarint(frame, at) if has_tags else (0, at)
        if tags > MOST_TAGS:
            raise BadFrame(f"its header has {tags} tags; at most {MOST_TAGS}")
        for _ in range(tags):
            size, at = uvarint(frame, uvarint(frame, at)[1])
            at += size
    except IndexError:
        raise BadFrame("the tags of its header do not end") from None
    return frame[at:]
