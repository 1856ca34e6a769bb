"""Acknowledged = readable: what counts as lost, different, duplicate."""

from replog.demo.acknowledged import Acknowledged, compare


def _acknowledged(*records: tuple[int, int, bytes]) -> Acknowledged:
    acknowledged = Acknowledged()
    for record in records:
        acknowledged.add(*record)
    return acknowledged


def test_equal_sets_hold():
    records = [(0, 0, b"a"), (0, 1, b"b"), (1, 0, b"c")]
    verdict = compare(_acknowledged(*records), records)
    assert verdict.holds
    assert (verdict.acknowledged, verdict.read, verdict.duplicates, verdict.unacknowledged) == (3, 3, 0, 0)


def test_an_acknowledged_offset_that_is_missing_is_lost_and_named():
    verdict = compare(_acknowledged((0, 0, b"a"), (2, 7, b"b")), [(0, 0, b"a")])
    assert not verdict.holds
    assert verdict.lost == 1
    assert verdict.faults == ["partition 2 offset 7 was acknowledged and cannot be read"]


def test_a_record_that_moved_to_another_offset_is_lost_where_it_was_acknowledged():
    verdict = compare(_acknowledged((0, 0, b"a")), [(0, 1, b"a")])
    assert (verdict.lost, verdict.duplicates, verdict.holds) == (1, 0, False)


def test_a_record_acknowledged_without_an_offset_must_be_readable_in_its_partition():
    acknowledged = _acknowledged((0, -1, b"a"), (0, -1, b"b"), (1, -1, b"c"))
    assert compare(acknowledged, [(0, 0, b"b"), (0, 1, b"a"), (1, 0, b"c")]).holds
    verdict = compare(acknowledged, [(0, 0, b"b"), (0, 1, b"c")])
    assert (verdict.lost, verdict.holds) == (2, False)


def test_another_value_at_an_acknowledged_offset_is_different():
    verdict = compare(_acknowledged((0, 0, b"a")), [(0, 0, b"A")])
    assert (verdict.different, verdict.lost, verdict.holds) == (1, 0, False)
    assert verdict.faults == ["partition 0 offset 0 holds another value than acknowledged"]


def test_a_retried_record_that_is_in_the_log_twice_is_a_fault_and_named():
    verdict = compare(_acknowledged((0, 1, b"a")), [(0, 0, b"a"), (0, 1, b"a")])
    assert (verdict.duplicates, verdict.unacknowledged, verdict.holds) == (1, 0, False)
    assert verdict.faults == ["partition 0 offset 1 holds the record of partition 0 offset 0 again"]


def test_a_record_that_was_never_acknowledged_may_not_be_there_twice_either():
    verdict = compare(_acknowledged(), [(0, 0, b"a"), (1, 0, b"a")])
    assert (verdict.duplicates, verdict.unacknowledged, verdict.holds) == (1, 1, False)


def test_a_record_whose_acknowledgement_never_came_may_be_readable():
    verdict = compare(_acknowledged((0, 0, b"a")), [(0, 0, b"a"), (0, 1, b"b")])
    assert verdict.holds
    assert verdict.unacknowledged == 1


def test_two_acknowledgements_of_one_offset_are_a_fault():
    verdict = compare(_acknowledged((0, 0, b"a"), (0, 0, b"b")), [(0, 0, b"b")])
    assert not verdict.holds
    assert verdict.faults == ["partition 0 offset 0 was acknowledged twice"]


def test_one_record_acknowledged_at_two_offsets_is_a_fault():
    records = [(0, 0, b"a"), (0, 1, b"a")]
    verdict = compare(_acknowledged(*records), records)
    assert not verdict.holds
    assert verdict.duplicates == 1


def test_offsets_that_go_back_within_a_partition_are_a_fault():
    records = [(0, 1, b"b"), (0, 0, b"a")]
    verdict = compare(_acknowledged(*records), records)
    assert not verdict.holds
    assert verdict.faults == ["partition 0: offset 0 was read after 1"]
