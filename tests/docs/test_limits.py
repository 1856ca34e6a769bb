"""Every limit in the docs is in the code, and a test that is there reaches it."""

import re

import pytest

from tests.docs.tree import ROOT

ROWS = re.findall(
    r"^\| (.+?) \| .+ \| `([\w/.]+)` `(\w+)` \| `([\w/.]+)` `(\w+)` \|$", (ROOT / "docs/limits.md").read_text(), re.M
)


def test_every_line_of_the_tables_was_read():
    lines = [line for line in (ROOT / "docs/limits.md").read_text().splitlines() if line.startswith("| ")]
    tables = len(re.findall(r"^\|---", (ROOT / "docs/limits.md").read_text(), re.M))
    assert len(ROWS) == len(lines) - tables > 10


@pytest.mark.parametrize(("limit", "path", "name", "test_path", "test"), ROWS, ids=[row[0][:40] for row in ROWS])
def test_a_limit_and_its_test_exist(limit: str, path: str, name: str, test_path: str, test: str):
    assert re.search(rf"\b{name}\b", (ROOT / path).read_text()), f"{path} does not know {name}: {limit}"
    assert f"def {test}(" in (ROOT / test_path).read_text(), f"{test_path} has no {test}: {limit}"
