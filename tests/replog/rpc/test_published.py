"""What the contracts promise to clients: what would break those that there are is refused."""

import re
from pathlib import Path

import pytest

from replog.rpc.generate import PROTO, PUBLISHED, broken, contracts, lines

BEFORE = """
syntax = "proto3";
package p;
service S { rpc Ask(M) returns (stream M); }
enum E { ZERO = 0; ONE = 1; }
message M { int32 a = 1; repeated string b = 2; optional int64 c = 3; map<string, E> d = 4; }"""


def said(directory: Path, text: str) -> list[str]:
    """What is broken of `BEFORE` by `text`."""
    published = lines(_contracts(directory / "before", BEFORE))
    return broken(published, _contracts(directory / "after", text))


def _contracts(directory: Path, text: str):
    directory.mkdir()
    (directory / "some.proto").write_text(text)
    return contracts(directory)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int32 a = 1;", "int32 a = 1; bytes e = 5;"),
        ("ONE = 1;", "ONE = 1; TWO = 2;"),
        ("int32 a = 1;", 'reserved 1; reserved "a";'),
        ("ONE = 1;", 'reserved 1; reserved "ONE";'),
        ("service S {", "service S { rpc More(M) returns (M);"),
        ("message M {", "message N {} message M {"),
    ],
)
def test_what_is_new_or_reserved_breaks_nothing(tmp_path, old, new):
    assert old in BEFORE
    assert said(tmp_path, BEFORE.replace(old, new)) == []


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ("int32 a = 1;", "", "field p.M 1 a optional int32"),
        ("int32 a = 1;", "reserved 1;", "field p.M 1 a optional int32"),
        ("int32 a = 1;", "int32 a = 7;", "field p.M 1 a optional int32"),
        ("int32 a = 1;", "sint32 a = 1;", "field p.M 1 a optional int32"),
        ("int32 a = 1;", "int32 renamed = 1;", "field p.M 1 a optional int32"),
        ("repeated string b", "string b", "field p.M 2 b repeated string"),
        ("optional int64 c", "int64 c", "field p.M 3 c presence optional int64"),
        ("ONE = 1;", "", "value p.E 1 ONE"),
        ("(stream M)", "(M)", "method p.S Ask .p.M returns stream .p.M"),
        ("rpc Ask(M) returns (stream M);", "", "method p.S Ask .p.M returns stream .p.M"),
    ],
)
def test_what_is_gone_or_changed_is_named(tmp_path, old, new, lost):
    assert old in BEFORE
    assert said(tmp_path, BEFORE.replace(old, new)) == [lost]


def test_our_contracts_are_those_that_were_published_and_more():
    published = PUBLISHED.read_text().splitlines()
    assert published
    assert broken(published, contracts(PROTO)) == []


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
