"""Whole numbers in what people write."""

import pytest

from replog.config.properties import MAX_LONG, number_in


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", "1e3", "1_0", " 1", "\u0664", "\u00b2", "65536", "9" * 5000])
def test_what_is_no_number_in_the_range_is_told_apart_without_an_error(text):
    assert number_in(text, 65535) is None


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("65535", 65535), (str(MAX_LONG), MAX_LONG)])
def test_numbers_are_ascii_digits(text, number):
    assert number_in(text, MAX_LONG) == number
