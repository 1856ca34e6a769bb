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


OF_THE_FIRST_PART = ("replog/log/", "replog/log_tools/", "replog/client/", "spark_jobs/", "damage/")  # and their tests


QUOTED_SECTION = re.compile(r"(§)([\d.]*\d)|(?<=[a-z`] \()()(\d{1,2}\.[1-9])(?=[,)])")


def sections(part: str) -> set[str]:
    """The numbers that a part of docs/sections.md explains."""
    known = set(re.findall(r"§([\d.]+): ", part))
    for first, last in re.findall(r"^### §?([\d.]+)(?: to ([\d.]+))?", part, re.M):
        chapter, _, number = first.partition(".")
        known |= {first} | {
            f"{chapter}.{each}" for each in range(int(number or 0), int(last.partition(".")[2] or 0) + 1)
        }
    return known


def test_every_quoted_section_is_written_down_in_the_part_that_is_meant():
    """§2.1 is about replication, as is 2.1, except where the formats are meant."""
    formats, _, replication = (ROOT / "docs/sections.md").read_text().partition("## Replication")
    known = {True: sections(formats), False: sections(replication)}
    assert {of_formats: len(numbers) >= 15 for of_formats, numbers in known.items()} == {True: True, False: True}, known
    quotes, unknown = 0, []
    for path, text in text_files(".py", ".proto"):
        for mark, marked, _, unmarked in QUOTED_SECTION.findall(text):
            quotes, number = quotes + 1, marked or unmarked
            of_formats = not mark and path.removeprefix("tests/").startswith(OF_THE_FIRST_PART)
            if number not in known[of_formats]:
                unknown.append(f"{path}: {mark}{number}")
    assert quotes > 100
    assert not unknown, unknown
