"""The tree stays readable, and stands alone."""

import re

import pytest

from tests.docs.tree import DOCUMENTS, ROOT, text_files

MAX_LINES = 450
# What only its authors ever had. In halves, so that this file does not name it either.
FOREIGN = ("../" + "shared", "/work" + "/", "DES" + "IGN")


def test_every_file_can_be_read_in_one_sitting():
    too_long = {path: lines for path, text in text_files() if (lines := text.count("\n")) > MAX_LINES}
    assert not too_long, f"more than {MAX_LINES} lines: split by idea: {too_long}"


def test_nothing_refers_to_what_is_not_in_the_tree():
    found = [f"{path}: {name}" for path, text in text_files() for name in FOREIGN if name in text]
    assert not found, found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    broken = []
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", (ROOT / document).read_text()):
        if not re.match(r"[a-z]+:", target) and not (ROOT / document).parent.joinpath(target).exists():
            broken.append(target)
    assert not broken, f"{document} links to {broken}"
