"""The choice of a record's partition: Kafka's murmur2 of its key, or without a key the same for a whole batch."""

from collections.abc import Sequence
from random import Random

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C


def murmur2(data: bytes) -> int:
    """Return Kafka's `Utils.murmur2`, a signed 32-bit hash, the same in every Kafka client."""
    length = len(data)
    whole = length & ~3
    h = _SEED ^ length
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        h = (h * _M & _MASK) ^ ((k ^ k >> 24) * _M & _MASK)
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h & 0x80000000 else h


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return toPositive(murmur2(key)) % partitions, like Kafka's default partitioner."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class StickyPartitioner:
    """Chooses for records without a key: one partition of a topic until its batch is closed, then another at random."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._current: dict[str, int] = {}

    def current(self, topic: str) -> int | None:
        """Return the topic's present partition; None before the first `switch`."""
        return self._current.get(topic)

    def switch(self, topic: str, available: Sequence[int]) -> int:
        """Choose another one of `available` at random; the same if there is no other."""
        count = len(available)
        index = self._random.randrange(count)
        if available[index] == self._current.get(topic) and count > 1:
            index = (index + self._random.randrange(1, count)) % count
        chosen = self._current[topic] = available[index]
        return chosen
