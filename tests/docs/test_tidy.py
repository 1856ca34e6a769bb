"""The tree stays readable, and stands alone."""

import ast
import re

import pytest

from tests.docs.tree import DOCUMENTS, PACKAGES, ROOT, syntax_tree, text_files

# What only its authors ever had. In halves, so that this file does not name it either.
FOREIGN = ("../" + "shared", "/work" + "/", "DES" + "IGN")

# Words that make readers stop, and usual ones for them: except, so that … not, again, any client that, even, during.
UNUSUAL = re.compile(r"\b(but f" r"or|les" r"t|ane" r"w|who(so)?eve" r"r|be i" r"t|in the mids" r"t)\b", re.IGNORECASE)


def test_nothing_refers_to_what_is_not_in_the_tree():
    strangers = [f"{path}: {name}" for path, text in text_files() for name in FOREIGN if name in text]
    assert not strangers, strangers


def test_words_are_usual_ones():
    unusual = [f"{path}: {match[0]}" for path, text in text_files() for match in UNUSUAL.finditer(text)]
    assert not unusual, unusual


def test_a_local_says_what_it_is():
    """`found` does not. Fields of that name do: the class says of what."""
    nameless = [
        f"{path}:{node.lineno}"
        for path, _ in text_files(".py")
        if path.partition("/")[0] in PACKAGES
        for function in ast.walk(syntax_tree(ROOT / path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id == "found" and isinstance(node.ctx, ast.Store)
    ]
    assert not nameless, nameless


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    broken = []
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", (ROOT / document).read_text()):
        if not re.match(r"[a-z]+:", target) and not (ROOT / document).parent.joinpath(target).exists():
            broken.append(target)
    assert not broken, f"{document} links to {broken}"
