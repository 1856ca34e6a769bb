"""Every rule and worked case is named by a test, or by a difference that is written down.

Identifiers count as they stand, one by one, or as in `def test_..._w_d3_sg_1`: "W-D3 to W-D5" names none of them. What
is said of a whole file, in its docstring or above its first scenario, names nothing either.
"""

import re

import pytest

from tests.docs.tree import ROOT, quoted, registered_rules, text_files

STORAGE = {"FN", "RB", "IX", "SG", "LG", "LD", "EP", "PS", "CL"}
REPLICATION = {"ST", "PR", "FE", "HW", "ISR", "FT", "PG", "CT", "INV"}
# A letter and a number may be a case of either part of docs/cases.md; in these tests it is one of storage.
LOG_TESTS = re.compile(r"tests/(replog/(log|fuzz)|interop|cluster/cli/test_log)")
_TESTS = re.compile(r"tests/(?!docs/).*/(test_\w+\.py|\w+\.txt)$")
_RANGE = re.compile(r"\b([A-Z]+-[A-Z]?)\d+ to \1\d+\b")
_TEST = re.compile(r"def (test_\w+)")
_IN_A_NAME = re.compile(r"(?<=_)(w_[a-z]|[a-z]{2,3}_)(?=(\d+)(?:_|$))")
_ABOUT_THE_FILE = re.compile(r'\A"""(.*?)"""|\A.*?(?=^== )', re.S | re.M)


def cases(part: str) -> list[str]:
    storage, _, replication = (ROOT / "docs/cases.md").read_text().partition("## Replication cases")
    return re.findall(r"^- \*\*(W-[A-Z]\d+)\*\* \S", {"storage": storage, "replication": replication}[part], re.M)


def named_by_differences(part: str) -> str:
    """What stands in parentheses in the entries about the disk, or in all others."""
    before, _, rest = (ROOT / "docs/divergences.md").read_text().partition("## On disk")
    disk, _, others = rest.partition("\n## ")
    return " ".join(re.findall(r"\(([^()]*)\)", {"storage": disk, "replication": before + others}[part]))


def named_by_a_file(text: str) -> tuple[set[str], set[str]]:
    """Rules and cases."""
    text = _RANGE.sub("", _ABOUT_THE_FILE.sub("", text))
    names = [
        (family.upper().replace("_", "-") + number)
        for test in _TEST.findall(text)
        for family, number in _IN_A_NAME.findall(test)
    ]
    return quoted(" ".join([text, *names]))


def named(part: str) -> set[str]:
    rules, found_cases = quoted(_RANGE.sub("", named_by_differences(part)))
    for path, text in text_files(".py", ".txt"):
        if _TESTS.match(path):
            found = named_by_a_file(text)
            rules |= found[0]
            found_cases |= found[1] if bool(LOG_TESTS.match(path)) is (part == "storage") else set()
    return rules | found_cases


def test_identifiers_are_told_apart_from_ranges_and_from_what_a_file_says_of_itself():
    text = '"""FE-1, FE-2."""\nW-D3 to W-D5, SG-1 to SG-3; W-D6 to be, LG-1, LG-2'
    assert named_by_a_file(text) == ({"LG-1", "LG-2"}, {"W-D6"})
    assert named_by_a_file("# FE-1\nset a 1\n\n== W-D3: FE-2\n") == ({"FE-2"}, {"W-D3"})
    assert named_by_a_file("def test_this_isr_5_w_t12(): def helper_fe_1") == ({"ISR-5"}, {"W-T12"})


@pytest.mark.parametrize(("part", "families", "least"), [("storage", STORAGE, 100), ("replication", REPLICATION, 170)])
def test_every_rule_is_named_by_a_test_or_a_difference(part: str, families: set[str], least: int):
    rules = [rule for rule in registered_rules() if rule.partition("-")[0] in families]
    assert len(rules) >= least
    known = named(part)
    missing = [rule for rule in rules if rule not in known]
    assert not missing, f"{len(missing)} rules without a test: " + ", ".join(missing)


@pytest.mark.parametrize(("part", "least"), [("storage", 80), ("replication", 120)])
def test_every_case_is_named_by_a_test_or_a_difference(part: str, least: int):
    registered = cases(part)
    assert len(registered) >= least
    known = named(part)
    missing = [case for case in registered if case not in known]
    assert not missing, f"{len(missing)} cases without a test: " + ", ".join(missing)
