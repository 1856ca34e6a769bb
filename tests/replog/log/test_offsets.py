"""Offsets with their places (5.2)."""

import pytest

from replog.log.offsets import OffsetMetadata

HERE = OffsetMetadata(12, 10, 140)
FURTHER = OffsetMetadata(15, 10, 300)
LATER = OffsetMetadata(25, 20, 69)
UNKNOWN = OffsetMetadata(25)


def test_places_compare_on_known_segments_alone() -> None:
    """LG-1."""
    assert HERE.on_older_segment(LATER)
    assert not LATER.on_older_segment(HERE)
    assert HERE.on_same_segment(FURTHER)
    assert not HERE.on_same_segment(LATER)
    assert not HERE.on_older_segment(FURTHER)
    assert FURTHER.position_difference(HERE) == 160


@pytest.mark.parametrize("place", [HERE, LATER, UNKNOWN])
def test_a_message_only_offset_is_on_no_segment(place: OffsetMetadata) -> None:
    """LG-1: neither older nor same, and at no distance."""
    assert UNKNOWN == (25, -1, -1)
    assert UNKNOWN.message_only
    for one, other in ((UNKNOWN, place), (place, UNKNOWN)):
        assert not one.on_older_segment(other)
        assert not one.on_same_segment(other)
        with pytest.raises(AssertionError, match="no byte distance"):
            one.position_difference(other)


def test_there_is_no_distance_between_segments() -> None:
    """LG-1."""
    with pytest.raises(AssertionError, match="no byte distance"):
        LATER.position_difference(HERE)
