"""Every identifier that anything quotes is in its register, and the register of rules has no holes."""

import re
from collections import defaultdict

from tests.docs.tree import ROOT, quoted, registered_rules, text_files


def test_every_quoted_rule_is_registered():
    rules = set(registered_rules())
    unknown = [f"{path}: {name}" for path, text in text_files() for name in sorted(quoted(text)[0] - rules)]
    assert not unknown, "not in docs/rules.md:\n" + "\n".join(unknown)


def test_rules_are_registered_once_in_order_and_without_holes():
    numbers = defaultdict(list)
    for rule in registered_rules():
        family, _, number = rule.partition("-")
        numbers[family].append(int(number))
    assert len(numbers) == 18, sorted(numbers)
    assert quoted(" ".join(registered_rules()))[0] == set(registered_rules()), "a family that no test looks for"
    for family, registered in numbers.items():
        assert registered == list(range(registered[0], registered[0] + len(registered))), f"{family}: {registered}"
        assert registered[0] == (0 if family == "LG" else 1), family


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
