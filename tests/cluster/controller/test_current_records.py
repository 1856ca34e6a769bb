from hypothesis import given
from hypothesis import strategies as st

from cluster.controller.current_records import CurrentRecords
from cluster.controller.records import number, tombstone


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(0, 60))
def test_after_gives_the_newest_record_of_each_key_newer_than_the_version_in_order(keys, version):
    records = [tombstone(f"k{key}") for key in keys]
    number(records, 0)
    current = CurrentRecords()
    for record in records:
        current.put([record])
    newest = {record.key: record.version for record in records}
    expected = sorted(v for v in newest.values() if v > version)
    assert [record.version for record in current.after(version)] == expected
