"""The architecture's drawings and tables show what there is, and so do the tables of packages."""

import re

import pytest

from tests.docs.tree import ROOT, registered_rules

TEXT = (ROOT / "ARCHITECTURE.md").read_text()
WORDS = 2_050
DRAWINGS = "\n".join(re.findall(r"^```mermaid\n(.*?)^```", TEXT, re.M | re.S))
ROWS = re.findall(r"^\| [^|]+ \(([A-Z]+-\d+)\) \| `([^`]+)`", TEXT, re.M)
PACKAGES = [
    path.parent
    for top in ("replog", "leader", "follower", "spark_jobs")
    for path in sorted(ROOT.glob(f"{top}/**/__init__.py"))
    if "\n|---|---|\n" in path.read_text()
]


@pytest.mark.parametrize(("rule", "path"), ROWS)
def test_the_file_of_a_rule_names_it(rule, path):
    family, _, number = rule.partition("-")
    text = (ROOT / path).read_text()
    ranges = re.findall(rf"{family}-(\d+) to {family}-(\d+)", text)
    named = re.search(rf"\b{rule}\b", text) or any(int(low) <= int(number) <= int(high) for low, high in ranges)
    assert named, f"{path} does not mention {rule}"


def test_every_path_in_the_text_exists():
    paths = set(re.findall(r"`(\w+/[\w/.]+)`", TEXT)) | set(re.findall(r"\w+/[\w/.]+", DRAWINGS))
    assert len(paths) > 60
    missing = sorted(path for path in paths if not (ROOT / path).exists())
    assert not missing, missing


def test_what_is_said_to_be_in_a_file_is_there():
    places = re.findall(r"`([\w/]+\.py)`, `(\w+)`", TEXT)
    assert places
    for path, name in places:
        assert f"def {name}(" in (ROOT / path).read_text(), (path, name)


def test_rules_that_are_named_exist():
    assert len(ROWS) > 10
    rules = set(re.findall(r"\b[A-Z]{2,}-\d+\b", TEXT))
    assert rules <= set(registered_rules()), rules - set(registered_rules())


def test_it_stays_on_two_screens():
    assert len(TEXT.split()) <= WORDS


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(ROOT)))
def test_a_package_with_a_table_has_all_of_its_files_in_it(package):
    named = set(re.findall(r"`([\w*]+\.py)`", (package / "__init__.py").read_text()))
    files = {path.name for path in package.glob("*.py")} - {"__init__.py"}
    assert files == {path.name for pattern in named for path in package.glob(pattern)}
    assert all(list(package.glob(pattern)) for pattern in named), named
