"""Every rule and worked case is named by a test, or by a difference that is written down.

Identifiers count as they stand, one by one: "HW-3 to HW-5" names none of them. What is said of a whole file, in its
docstring or above its first scenario, names nothing either.
"""

import re
from collections import defaultdict

from tests.docs.tree import ROOT, quoted, registered_rules, text_files

_TESTS = re.compile(r"tests/(?!docs/).*/(test_\w+\.py|rows\.py|\w+\.txt)$")  # rows: tests/damage
_RANGE = re.compile(r"\b([A-Z-]+)\d+ to \1\d+\b")
_ABOUT_THE_FILE = re.compile(r'\A"""(.*?)"""|\A.*?(?=^== )', re.S | re.M)


def named_by_a_file(text: str) -> tuple[set[str], set[str]]:
    """Rules and cases."""
    return quoted(_RANGE.sub("", _ABOUT_THE_FILE.sub("", text)))


def named() -> tuple[set[str], set[str]]:
    """Rules and cases, by tests and by what stands in parentheses in a difference."""
    differences = re.findall(r"\(([^()]*)\)", (ROOT / "docs/divergences.md").read_text())
    rules, cases = quoted(_RANGE.sub("", " ".join(differences)))
    for path, text in text_files(".py", ".txt"):
        if _TESTS.match(path):
            found_rules, found_cases = named_by_a_file(text)
            rules |= found_rules
            cases |= found_cases
    return rules, cases


def test_identifiers_are_told_apart_from_ranges_and_from_what_a_file_says_of_itself():
    text = '"""FE-1, FE-2.""" S-W-D3 to S-W-D5, SG-1 to SG-3; R-W-D6 to be, LG-1, LG-2'
    assert named_by_a_file(text) == ({"LG-1", "LG-2"}, {"R-W-D6"})
    assert named_by_a_file("# FE-1\nset a 1\n\n== R-W-D3: FE-2\n") == ({"FE-2"}, {"R-W-D3"})


def test_every_rule_is_named_by_a_test_or_a_difference():
    rules, known = registered_rules(), named()[0]
    assert len(rules) >= 280
    missing = [rule for rule in rules if rule not in known]
    assert not missing, f"{len(missing)} rules without a test: " + ", ".join(missing)


def test_every_case_is_named_by_a_test_or_a_difference():
    """Those that anything quotes, and those between: the numbers of a family have no holes."""
    known = {case for case in named()[1] if case[0] in "RS"}  # of replication, of storage
    assert len(known) >= 236
    families = defaultdict(set)
    for case in known:
        family, number = case[:5], case[5:]  # of `R-W-T12`
        families[family].add(int(number))
    for family, numbers in families.items():
        assert numbers == set(range(1, len(numbers) + 1)), f"{family}: {sorted(numbers)}"
    missing = [f"{path}: {case}" for path, text in text_files() for case in sorted(quoted(text)[1] - known)]
    assert not missing, "cases without a test:\n" + "\n".join(missing)
