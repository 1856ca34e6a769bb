from hypothesis import given
from hypothesis import strategies as st

from cluster.controller.current_records import CurrentRecords
from cluster.controller.records import cluster_record, collected_record, numbered, tombstone


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(0, 60))
def test_after_gives_the_newest_record_of_each_key_newer_than_the_version_in_order(keys, version):
    records = [tombstone(f"k{key}") for key in keys]
    records = [change.record for change in numbered(records, 0) if change is not None]
    current = CurrentRecords()
    for record in records:
        current.put([record])
    newest = {record.key: record.version for record in records}
    expected = sorted(v for v in newest.values() if v > version)
    assert [record.version for record in current.after(version)] == expected


def test_deletions_up_to_a_version_are_forgotten_and_it_is_known_from_where_on_none_is_missing():
    records = [cluster_record("c"), *map(tombstone, "abc")]
    records = [change.record for change in numbered(records, 0) if change is not None]
    current = CurrentRecords()
    current.put(records)
    assert current.oldest == 0
    assert current.tombstones(up_to=3) == ["a", "b"]
    assert current.tombstones(up_to=3, limit=1) == ["a"]
    collected = collected_record(3)
    collected.version = 5
    current.put([collected])
    assert [record.key for record in current.after(0)] == ["cluster", "c", "collected"]
    assert (current.oldest, current.tombstones(up_to=9)) == (3, ["c"])


def test_a_key_that_was_set_again_is_no_tombstone():
    records = [tombstone("cluster"), cluster_record("c")]
    records = [change.record for change in numbered(records, 0) if change is not None]
    current = CurrentRecords()
    current.put(records)
    assert current.tombstones(up_to=9) == []
