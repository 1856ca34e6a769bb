"""Numbers of any size, seven bits a byte: those inside of records (2.2), of protobuf, and of HPACK."""

from functools import lru_cache


@lru_cache(1 << 14)  # sizes and offset deltas come again and again
def varint(value: int) -> bytes:
    """Encode a number of 64 bits in zigzag."""
    return unsigned((value << 1) ^ (value >> 63))


def unsigned(value: int) -> bytes:
    """Encode a number, the lowest bits first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a number of at most 10 bytes as it is, in zigzag or not; return it and its end.

    Raises IndexError if it is longer, or ends with `data`."""
    value = data[position]
    if value < 0x80:
        return value, position + 1
    byte = data[position + 1]
    if byte < 0x80:  # nearly all that are longer than a byte
        return value - 0x80 + (byte << 7), position + 2
    value, position = value - 0x80 + ((byte - 0x80) << 7), position + 2
    for shift in range(14, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise IndexError
