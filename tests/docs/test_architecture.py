"""The architecture's tables point at what there is."""

import re

import pytest

from tests.docs.tree import ROOT, registered_rules

TEXT = (ROOT / "ARCHITECTURE.md").read_text()
ROWS = re.findall(r"^\| ([A-Z]+-\d+) \| [^|]+ \| `([^`]+)` \|$", TEXT, re.M)


def test_the_table_of_rules_was_found():
    assert len(ROWS) >= 20
    assert {rule for rule, _ in ROWS} <= set(registered_rules())


@pytest.mark.parametrize(("rule", "path"), ROWS)
def test_the_file_of_a_rule_names_it(rule: str, path: str):
    assert (ROOT / path).is_file(), f"{path} does not exist"
    family, _, number = rule.partition("-")
    text = (ROOT / path).read_text()
    ranges = re.findall(rf"{family}-(\d+) to {family}-(\d+)", text)
    named = re.search(rf"\b{rule}\b", text) or any(int(low) <= int(number) <= int(high) for low, high in ranges)
    assert named, f"{path} does not mention {rule}"


def test_every_path_in_the_text_exists():
    paths = {path for path in re.findall(r"`([\w/.]+\.py)`", TEXT) if "/" in path}
    missing = sorted(path for path in paths if not (ROOT / path).is_file())
    assert not missing, missing


@pytest.mark.parametrize(
    "package",
    [
        "leader",
        "cluster/broker",
        "cluster/chaos",
        "cluster/cli",
        "cluster/controller",
        "cluster/simulation",
        "spark_jobs",
        "spark_jobs/audit",
        "spark_jobs/records",
        "spark_jobs/replicas",
    ],
)
def test_a_package_with_a_table_has_all_of_its_files_in_it(package: str):
    table = (ROOT / package / "__init__.py").read_text()
    named = set(re.findall(r"`([\w*]+\.py)`", table))
    files = {path.name for path in (ROOT / package).glob("*.py")} - {"__init__.py"}
    assert files == {path.name for pattern in named for path in (ROOT / package).glob(pattern)}
    assert all(list((ROOT / package).glob(pattern)) for pattern in named), named
