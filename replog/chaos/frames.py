"""Builds the TCP reset with which a frame's receiver would refuse the connection."""

import struct

ETHERNET_BYTES = 14
_IPV4, _TCP = 0x0800, 6
_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10


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
