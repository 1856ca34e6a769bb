"""What the contracts promise to clients in other languages."""

import re

import pytest

from replog.rpc.generate import PROTO

CONTRACTS = sorted(PROTO.glob("replog/v1/*.proto"))


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda path: path.stem)
def test_go_and_java_get_names_of_their_own(contract):
    text = contract.read_text()
    for option in ('go_package = "replog/v1;replogv1"', 'java_package = "replog.v1"', "java_multiple_files = true"):
        assert f"option {option};\n" in text


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda path: path.stem)
def test_a_field_that_may_be_minus_one_is_not_sent_as_ten_bytes(contract):
    """As int32 and int64 are, if they are negative."""
    costly = re.compile(r"^ *(?:\w+ )?int(?:32|64) \w+ = \d+;.* -1\b.*", re.M)
    assert costly.findall(contract.read_text()) == []
