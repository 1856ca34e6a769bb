"""Which chunks of metadata are to be cleaned."""

from replog.rpc.v1 import metadata_pb2
from replog.rpc.v1.etcd_store_pb2 import StoreChunk
from replog.server.controller.etcd.live_records import CLEANED_AT_ONCE, LiveRecords

BYTES = 100  # of one chunk


def test_the_oldest_chunks_are_cleaned_some_at_a_time():
    live = LiveRecords()
    for number in range(2 * CLEANED_AT_ONCE):
        live.add(number, BYTES, StoreChunk(records=[metadata_pb2.MetadataRecord(key="topic/t", version=number + 1)]))
    assert live.to_clean(at_once=10 * BYTES, slack=0) == list(range(10))
    assert live.to_clean(at_once=1, slack=0) == [0]
    assert live.to_clean(at_once=1 << 30, slack=0) == list(range(CLEANED_AT_ONCE))
    assert live.to_clean(at_once=1 << 30, slack=1 << 30) == []


def test_nothing_is_kept_of_a_deleted_topics_partitions():
    live, partition = LiveRecords(), metadata_pb2.MetadataRecord(key="partition/t/0", version=1)
    live.add(0, BYTES, StoreChunk(records=[partition]))
    assert list(live.counting([partition])) == [partition]
    live.add(1, BYTES, StoreChunk(forgotten=["partition/t/"], forgotten_up_to=1))
    assert list(live.counting([partition])) == []
    assert not live._live
