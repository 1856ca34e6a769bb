"""Docstrings and comments are sentences: a fragment parses only beside its line."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from tests.docs.tree import PACKAGES, ROOT, syntax_tree, text_files

DOCSTRING = re.compile(r"(What|Whether|Of|As|Until|Who|Whose|Those|Where|How)\b")
COMMENT = re.compile(
    r"#\s*(of|as|until|who|whose|those|where|which|that|what|whether|in|on|at|by|for|from|to|with|without|after"
    r"|before|since|into|unlike|like|under|over|between|beside)\b",
    re.IGNORECASE,
)


def fragments() -> Iterator[str]:
    """Yields where each fragment stands, and how it begins."""
    for path, text in text_files(".py"):
        if path.partition("/")[0] not in PACKAGES:
            continue
        for node in ast.walk(syntax_tree(ROOT / path)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = ast.get_docstring(node)
                if docstring and DOCSTRING.match(docstring):
                    line = 1 if isinstance(node, ast.Module) else node.lineno
                    yield f"{path}:{line}: {docstring.splitlines()[0]}"
        above = 0
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                line, alone = token.start[0], token.line.lstrip().startswith("#")
                if not (alone and line == above + 1) and COMMENT.match(token.string):
                    yield f"{path}:{line}: {token.string}"
                above = line if alone else 0


def test_docstrings_and_comments_are_no_fragments():
    lines = list(fragments())
    assert not lines, f"{len(lines)} fragments:\n" + "\n".join(lines)
