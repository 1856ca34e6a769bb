from hypothesis import given
from hypothesis import strategies as st

from replog.rpc.v1.metadata_pb2 import CollectedRecord, MetadataRecord
from replog.server.controller.watchers import CurrentRecords


def records_of(*records):
    current = CurrentRecords()
    current.put(records)
    return current


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(0, 60), st.integers(1, 60))
def test_a_watcher_lacks_the_newest_record_of_each_key_newer_than_its_version_in_order(keys, version, together):
    records = [MetadataRecord(key=f"topic/k{key}", version=number) for number, key in enumerate(keys, 1)]
    current = CurrentRecords()
    for first in range(0, len(records), together):
        current.take_over(records_of(*records[first : first + together]))
    newest = {record.key: record.version for record in records}
    lacking, is_all = current.since(version)
    assert [record.version for record in lacking] == sorted(v for v in newest.values() if v > version)
    assert not is_all


def test_the_records_of_a_deleted_topics_partitions_are_kept_no_longer_and_no_others_go():
    keys = ["topic/t", "partition/t/0", "partition/t/1", "partition/t2/0", "partition/t.x/0"]
    current = records_of(*(MetadataRecord(key=key, version=version) for version, key in enumerate(keys, 1)))
    gone = current.take_over(records_of(MetadataRecord(key="topic/t", version=6)), ["partition/t/"])
    assert [record.key for record in gone] == ["partition/t/0", "partition/t/1"]
    assert set(current._versions) == {"topic/", "partition/t2/", "partition/t.x/"}
    assert [record.key for record in current.since(0)[0]] == ["partition/t2/0", "partition/t.x/0", "topic/t"]
    current.take_over(records_of(MetadataRecord(key="partition/t/0", version=7)))
    assert [record.version for record in current.since(5)[0]] == [6, 7]


def test_who_has_seen_less_than_the_forgotten_deletions_is_given_everything():
    keys = ["cluster", "a", "b", "c"]
    current = records_of(*(MetadataRecord(key=key, version=version) for version, key in enumerate(keys, 1)))
    collected = MetadataRecord(key="collected", version=5, collected=CollectedRecord(version=3))
    current.take_over(records_of(collected), ["a", "b"])
    everything, newer = ["cluster", "c", "collected"], ["c", "collected"]
    for seen, expected in {0: (everything, False), 2: (everything, True), 3: (newer, False)}.items():
        lacking, is_all = current.since(seen)
        assert ([record.key for record in lacking], is_all) == expected, seen
