"""Keys go where every Kafka client sends them."""

from random import Random

import pytest

from replog.client.producing.partitioner import StickyPartitioner, murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "expected"),
    [  # Kafka's own UtilsTest
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_kafkas_values(key, expected):
    assert murmur2(key) == expected


def test_a_negative_hash_is_masked_not_negated():
    assert partition_for_key(b"21", 7) == (-973932308 & 0x7FFFFFFF) % 7
    assert partition_for_key(b"", 5) in range(5)


def test_the_sticky_partition_stays_until_it_is_switched_and_then_is_another():
    sticky = StickyPartitioner(Random(1))
    assert sticky.current("t") is None
    first = sticky.switch("t", range(3))
    assert all(sticky.current("t") == first for _ in range(10))
    for _ in range(20):
        before = sticky.current("t")
        assert sticky.switch("t", range(3)) != before


def test_topics_have_sticky_partitions_of_their_own():
    sticky = StickyPartitioner(Random(1))
    kept = sticky.switch("a", [0])
    sticky.switch("b", [5])
    assert (sticky.current("a"), sticky.switch("b", [5])) == (kept, 5), "the only one is kept"
