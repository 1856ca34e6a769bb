"""Every rule and worked case of the storage layer is named by a test, or by a difference that is written down.

Identifiers count as they stand, one by one: "W-D3 to W-D5" names none of them.
"""

import re

from tests.docs.tree import ROOT, quoted, registered_rules, text_files

STORAGE_FAMILIES = {"FN", "RB", "IX", "SG", "LG", "LD", "EP", "PS", "CL"}
# Elsewhere a letter and a number may be a case of the replication protocol (docs/cases.md).
LOG_TESTS = re.compile(r"tests/(replog/log|interop|cluster/cli/test_log)")
_RANGE = re.compile(r"\b([A-Z]+-[A-Z]?)\d+ to \1\d+\b")


def storage_cases() -> list[str]:
    storage = (ROOT / "docs/cases.md").read_text().partition("## Replication cases")[0]
    return re.findall(r"^- \*\*(W-[A-Z]\d+)\*\* \S", storage, re.M)


def named_by_differences() -> str:
    """What stands in parentheses in the entries about the disk."""
    text = (ROOT / "docs/divergences.md").read_text().partition("## On disk")[2].partition("\n## ")[0]
    return " ".join(re.findall(r"\(([^()]*)\)", text))


def named() -> set[str]:
    rules, cases = quoted(named_by_differences())
    for path, text in text_files(".py"):
        if path.startswith("tests/") and not path.startswith("tests/docs/"):
            found = quoted(_RANGE.sub("", text))
            rules |= found[0]
            cases |= found[1] if LOG_TESTS.match(path) else set()
    return rules | cases


def test_identifiers_are_told_apart_from_ranges():
    text = "W-D3 to W-D5, SG-1 to SG-3; W-D6 to be, LG-1, LG-2"
    assert quoted(_RANGE.sub("", text)) == ({"LG-1", "LG-2"}, {"W-D6"})


def test_every_storage_rule_is_named_by_a_test_or_a_difference():
    rules = [rule for rule in registered_rules() if rule.partition("-")[0] in STORAGE_FAMILIES]
    assert len(rules) >= 100
    known = named()
    missing = [rule for rule in rules if rule not in known]
    assert not missing, f"{len(missing)} rules without a test: " + ", ".join(missing)


def test_every_storage_case_is_named_by_a_test_or_a_difference():
    cases = storage_cases()
    assert len(cases) >= 80
    known = named()
    missing = [case for case in cases if case not in known]
    assert not missing, f"{len(missing)} cases without a test: " + ", ".join(missing)
