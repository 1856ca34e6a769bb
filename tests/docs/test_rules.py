"""Every identifier that anything quotes is in its register, and the registers have no holes."""

import re
from collections import Counter, defaultdict

from tests.docs.tree import ROOT, quoted, registered_cases, registered_rules, text_files


def test_every_quoted_rule_and_case_is_registered():
    rules, cases = set(registered_rules()), set(registered_cases())
    unknown = []
    for path, text in text_files():
        quoted_rules, quoted_cases = quoted(text)
        unknown += [f"{path}: {name}" for name in sorted((quoted_rules - rules) | (quoted_cases - cases))]
    assert not unknown, "not in docs/rules.md or docs/cases.md:\n" + "\n".join(unknown)


def test_rules_are_registered_once_in_order_and_without_holes():
    numbers = defaultdict(list)
    for rule in registered_rules():
        family, _, number = rule.partition("-")
        numbers[family].append(int(number))
    assert len(numbers) == 18, sorted(numbers)
    for family, found in numbers.items():
        assert found == list(range(found[0], found[0] + len(found))), f"{family}: {found}"
        assert found[0] == (0 if family == "LG" else 1), family


def test_a_case_is_registered_once_in_each_part():
    storage, _, replication = (ROOT / "docs/cases.md").read_text().partition("## Replication cases")
    for part in (storage, replication):
        counts = Counter(re.findall(r"^- \*\*(W-[A-Z]\d+)\*\*", part, re.M))
        assert counts, "no case found"
        assert not [case for case, count in counts.items() if count > 1]


def test_every_quoted_divergence_is_written_down():
    divergences = re.findall(r"^\*\*(\d+)\. ", (ROOT / "docs/divergences.md").read_text(), re.M)
    assert len(divergences) == len(set(divergences)), f"a number is given once: {sorted(map(int, divergences))}"
    unknown = []
    for path, text in text_files(".py", ".proto", ".md"):
        numbers = re.findall(r"\bdivergence (\d+)", text)
        if path.endswith(".md"):
            numbers += re.findall(r"(?<![-\w])D(\d+)\b", text)
        unknown += [f"{path}: divergence {number}" for number in numbers if number not in divergences]
    assert not unknown, unknown


def test_every_quoted_section_is_written_down():
    sections = re.findall(r"^### (§?[\d.]+)(?: to ([\d.]+))?", (ROOT / "docs/sections.md").read_text(), re.M)
    text = (ROOT / "docs/sections.md").read_text()
    known = {first for first, _ in sections} | set(re.findall(r"§[\d.]*\d", text))
    assert len(known) >= 30
    unknown = []
    for path, content in text_files(".py", ".proto"):
        unknown += [f"{path}: {name}" for name in re.findall(r"§[\d.]*\d", content) if name not in known]
    assert not unknown, unknown
