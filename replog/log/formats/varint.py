"""The numbers inside of records (2.2)."""

from functools import lru_cache


@lru_cache(1 << 14)  # sizes and offset deltas come again and again
def varint(value: int) -> bytes:
    """A number of 64 bits, in zigzag."""
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append((rest & 0x7F) | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
