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
