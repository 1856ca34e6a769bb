"""Topic names from outside become directory names: only harmless ones may."""

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition, parse_directory_name, validate_topic_name


@pytest.mark.parametrize("name", ["a", "flights", "a-b", "A.b_c-9", "x" * 249, "..a"])
def test_legal_names_are_taken(name):
    assert validate_topic_name(name) == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "is empty"),
        (".", "reserved"),
        ("..", "reserved"),
        ("../x", "other than the legal ones; choose 1 to 249 ASCII letters"),
        ("a/b", "other than the legal ones; choose 1 to 249 ASCII letters"),
        ("a b", "other than the legal ones; choose 1 to 249 ASCII letters"),
        ("a\n", "other than the legal ones; choose 1 to 249 ASCII letters"),
        ("é", "other than the legal ones; choose 1 to 249 ASCII letters"),
        ("x" * 250, "250 characters"),
    ],
)
def test_other_names_are_refused_with_the_reason(name, reason):
    with pytest.raises(ReplogError, match=reason) as raised:
        validate_topic_name(name)
    assert raised.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert len(str(raised.value)) < 300


def test_fn_1_a_directory_name_is_split_at_the_last_dash():
    """FN-1."""
    assert parse_directory_name("a-b-12") == TopicPartition("a-b", 12)
    assert TopicPartition("a-b", 12).directory_name == "a-b-12"


@pytest.mark.parametrize("name", ["", "a", "-1", "a-", "a-x", "a-01", "a--", "a-99999999999", ".-1", "a b-1"])
def test_fn_1_other_directory_names_are_errors(name):
    """FN-1."""
    with pytest.raises(ValueError, match="is not <topic>-<partition>"):
        parse_directory_name(name)
