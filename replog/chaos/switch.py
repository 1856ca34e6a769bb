"""The switch that connects all machines: it passes frames on, by the rule of their link if it has one.

The kernel's netem would do some of this, but not every kernel has it. A machine's interface is a TAP device, whose
other end is a file here; each direction between two machines is a link. `python -m replog.chaos.switch SEED PORTS`
makes the devices tap1 to tapN, prints `ready`, and takes rules from stdin, a JSON object a line:
{"links": [[1, 2], …], "rule": {…}}; without `rule` the links have none.
"""

import contextlib
import fcntl
import heapq
import json
import os
import random
import selectors
import struct
import sys
import time
from dataclasses import dataclass
from typing import Any

ETHERNET_BYTES = 14
_IPV4, _TCP = 0x0800, 6
_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10
MAC_PREFIX = bytes([2, 0, 0, 0, 0])  # the number of the port follows
MTU = 9000
QUEUE_S = 0.5  # the buffer of a slow link, in time; more is dropped
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_FRAMES_A_TURN = 64


def reset_for(frame: bytes) -> bytes | None:
    """Return a reset for the sender of `frame`, as from its receiver; None if it is no TCP over IPv4, or a reset."""
    if len(frame) < ETHERNET_BYTES + 40 or int.from_bytes(frame[12:14], "big") != _IPV4:
        return None
    packet = frame[ETHERNET_BYTES:]
    header_bytes = (packet[0] & 15) * 4
    segment = packet[header_bytes : int.from_bytes(packet[2:4], "big")]
    if packet[9] != _TCP or len(segment) < 20:
        return None
    source_port, target_port, sequence, acknowledged, offset, flags = struct.unpack_from(">HHIIBB", segment)
    if flags & _RST:
        return None
    length = len(segment) - (offset >> 4) * 4 + bool(flags & _SYN) + bool(flags & _FIN)
    numbers = acknowledged if flags & _ACK else 0, (sequence + length) & 0xFFFF_FFFF
    answer = struct.pack(">HHIIBBHHH", target_port, source_port, *numbers, 5 << 4, _RST | _ACK, 0, 0, 0)
    source, target = packet[12:16], packet[16:20]
    sums = _checksum(target + source + struct.pack(">BBH", 0, _TCP, len(answer)) + answer)
    answer = answer[:16] + struct.pack(">H", sums) + answer[18:]
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(answer), 0, 0x4000, 64, _TCP, 0) + target + source
    head = head[:10] + struct.pack(">H", _checksum(head)) + head[12:]
    return frame[6:12] + frame[0:6] + frame[12:14] + head + answer


def _checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071): the complement of the sum of all 16-bit words."""
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule for frames in one direction of a link."""

    cut: bool = False  # frames vanish
    reset: bool = False  # the sender of a frame that vanishes gets a TCP reset
    delay_s: float = 0.0
    jitter_s: float = 0.0  # the most that is added to the delay; frames keep their order
    loss: float = 0.0  # the share of frames that vanish
    bytes_per_s: float = 0.0  # 0: no limit


@dataclass(slots=True)
class _Link:
    rule: Rule
    free_at: float = 0.0  # the time at which the last frame will have left
    arrives_at: float = 0.0


class Switch:
    """Applies rules to frames. Time and random numbers come from outside."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._links: dict[tuple[int, int], _Link] = {}

    def order(self, links: list[tuple[int, int]], rule: Rule | None) -> None:
        for link in links:
            self._links.pop(link, None)
            if rule is not None:
                self._links[link] = _Link(rule)

    def take(self, source: int, frame: bytes, now: float) -> tuple[float, int, bytes] | None:
        """Return the time, the port and the frame to send; None: nothing."""
        if frame[:5] != MAC_PREFIX:
            return None  # a broadcast, which no machine needs, since none asks for addresses
        target = frame[5]
        link = self._links.get((source, target))
        if link is None:
            return now, target, frame
        rule = link.rule
        if rule.cut:
            answer = reset_for(frame) if rule.reset else None
            return None if answer is None else (now, source, answer)
        if rule.loss and self._rng.random() < rule.loss:
            return None
        leaves_at = now
        if rule.bytes_per_s:
            leaves_at = max(now, link.free_at)
            if leaves_at - now > QUEUE_S:
                return None
            link.free_at = leaves_at = leaves_at + len(frame) / rule.bytes_per_s
        arrives_at = leaves_at + rule.delay_s + (self._rng.uniform(0, rule.jitter_s) if rule.jitter_s else 0.0)
        link.arrives_at = max(link.arrives_at, arrives_at)
        return link.arrives_at, target, frame


def _tap(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
    return device


class _Process:
    """The process of the switch, which moves frames between devices."""

    def __init__(self, seed: int, ports: int) -> None:
        self._switch = Switch(random.Random(seed))
        self._devices = {port: _tap(f"tap{port}") for port in range(1, ports + 1)}
        self._late: list[tuple[float, int, int, bytes]] = []
        self._count = 0

    def run(self) -> None:
        """Pass frames on until stdin ends."""
        orders = b""
        os.set_blocking(0, False)
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ, 0)
            for port, device in self._devices.items():
                selector.register(device, selectors.EVENT_READ, port)
            print("ready", flush=True)
            while True:
                wait_s = max(0.0, self._late[0][0] - time.monotonic()) if self._late else None
                for key, _ in selector.select(wait_s):
                    if key.data:
                        self._forward(key.data)
                        continue
                    more = os.read(0, 65536)
                    if not more:
                        return
                    *lines, orders = (orders + more).split(b"\n")
                    for line in lines:
                        self._obey(json.loads(line))
                while self._late and self._late[0][0] <= time.monotonic():
                    _, _, target, frame = heapq.heappop(self._late)
                    self._send(target, frame)

    def _obey(self, order: dict[str, Any]) -> None:
        links = [(source, target) for source, target in order["links"]]
        self._switch.order(links, Rule(**order["rule"]) if "rule" in order else None)
        print("done", flush=True)

    def _forward(self, port: int) -> None:
        device = self._devices[port]
        for _ in range(_FRAMES_A_TURN):
            try:
                frame = os.read(device, 65536)
            except (BlockingIOError, OSError):  # OSError: the device is not up yet
                return
            now = time.monotonic()
            forwarded = self._switch.take(port, frame, now)
            if forwarded is not None:
                due, target, frame = forwarded
                if due <= now:
                    self._send(target, frame)
                else:
                    self._count += 1
                    heapq.heappush(self._late, (due, self._count, target, frame))

    def _send(self, port: int, frame: bytes) -> None:
        if port in self._devices:
            with contextlib.suppress(OSError):  # the queue is full, or the device is not up: the frame is dropped
                os.write(self._devices[port], frame)


if __name__ == "__main__":
    _Process(int(sys.argv[1]), int(sys.argv[2])).run()
