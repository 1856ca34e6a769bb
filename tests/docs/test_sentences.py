"""Docstrings and comments are sentences. A fragment parses only beside its line; each package may have so many yet."""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator

from tests.docs.tree import PACKAGES, ROOT, package_of, syntax_tree, text_files

DOCSTRING = re.compile(r"(What|Whether|Of|As|Until|Who|Whose|Those|Where|How)\b")
COMMENT = re.compile(
    r"#\s*(of|as|until|who|whose|those|where|which|that|what|whether|in|on|at|by|for|from|to|with|without|after"
    r"|before|since|into|unlike|like|under|over|between|beside)\b",
    re.IGNORECASE,
)

# Docstrings, comments. Lower a number when you have mended some; a package that is not here has none.
ALLOWED = {
    "replog/server": (125, 78),
}


def fragments() -> Iterator[tuple[str, int, str]]:
    """Yields the package of each fragment, 0 for a docstring or 1 for a comment, and where it stands and begins."""
    for path, text in text_files(".py"):
        if path.partition("/")[0] not in PACKAGES:
            continue
        package = package_of(path)
        for node in ast.walk(syntax_tree(ROOT / path)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = ast.get_docstring(node)
                if docstring and DOCSTRING.match(docstring):
                    line = 1 if isinstance(node, ast.Module) else node.lineno
                    yield package, 0, f"{path}:{line}: {docstring.splitlines()[0]}"
        above = 0
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                line = token.start[0]
                if line != above + 1 and COMMENT.match(token.string):
                    yield package, 1, f"{path}:{line}: {token.string}"
                above = line


def test_no_package_has_more_fragments_than_it_may():
    all_of_them = list(fragments())
    counts = Counter((package, kind) for package, kind, _ in all_of_them)
    over = {key for key, count in counts.items() if count > ALLOWED.get(key[0], (0, 0))[key[1]]}
    lines = [where for package, kind, where in all_of_them if (package, kind) in over]
    assert not over, f"{len(lines)} fragments in {sorted({package for package, _ in over})}:\n" + "\n".join(lines)
