"""The numbers inside of records (2.2)."""

from functools import lru_cache


def encode_varint(value: int) -> bytes:
    """A zigzag varint of a number of 64 bits."""
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append((rest & 0x7F) | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


varint = lru_cache(1 << 14)(encode_varint)  # for whoever writes records: sizes and offset deltas come again and again
