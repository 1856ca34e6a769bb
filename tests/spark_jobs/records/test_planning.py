"""What a trigger takes and which task reads what."""

from hypothesis import given
from hypothesis import strategies as st

from replog.topic import TopicPartition
from spark_jobs.records.task import OffsetRange, limited, tasks

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_a_limit_is_shared_in_proportion_to_the_backlogs():
    assert limited({A: 0, B: 100}, {A: 100, B: 400}, 200) == {A: 50, B: 250}
    assert limited({A: 0, B: 7}, {A: 100, B: 7}, 100) == {A: 100, B: 7}, "one that is not reached limits nothing"


def test_a_small_partition_is_not_starved_by_a_large_one():
    assert limited({A: 0, B: 0, C: 5}, {A: 1_000_000, B: 1, C: 5}, 10) == {A: 9, B: 1, C: 5}


BACKLOGS = st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), min_size=1, max_size=8)


@given(BACKLOGS, st.integers(1, 2**42))
def test_a_limit_is_used_up_and_never_exceeded(backlogs, limit):
    start = {TopicPartition("t", number): begin for number, (begin, _) in enumerate(backlogs)}
    end = {TopicPartition("t", number): begin + size for number, (begin, size) in enumerate(backlogs)}
    ends = limited(start, end, limit)
    assert all(start[partition] <= ends[partition] <= end[partition] for partition in end)
    assert sum(ends.values()) - sum(start.values()) == min(limit, sum(size for _, size in backlogs))


@given(BACKLOGS, st.none() | st.integers(1, 50), st.none() | st.integers(2**36, 2**41))
def test_tasks_read_every_offset_once(backlogs, min_partitions, max_records):
    ranges = [OffsetRange("t", n, "", begin, begin + size) for n, (begin, size) in enumerate(backlogs)]
    parts = tasks(ranges, min_partitions, max_records)
    for wanted in ranges:
        own = [part for part in parts if part.partition == wanted.partition]
        edges = [wanted.start, *(part.end for part in own)]
        assert [part.start for part in own] == edges[:-1] or not own
        assert edges[-1] == wanted.end or (wanted.size == 0 and not own)
        assert all(part.size > 0 for part in own)
        assert max_records is None or all(part.size <= max_records for part in own)
    assert min_partitions is None or len(parts) >= min(min_partitions, sum(size for _, size in backlogs))


def test_more_tasks_than_partitions_are_made_where_so_many_are_wanted():
    ranges = [OffsetRange("t", 0, "", 0, 300), OffsetRange("t", 1, "", 0, 100), OffsetRange("t", 2, "", 9, 9)]
    assert [(part.partition, part.size) for part in tasks(ranges, 4, None)] == [(0, 100), (0, 100), (0, 100), (1, 100)]
    assert [(part.partition, part.size) for part in tasks(ranges, 2, None)] == [(0, 300), (1, 100)]
