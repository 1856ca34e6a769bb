"""What begins with an underscore is used in its own package alone: through `self` in its folder, else in its file."""

import ast
from collections import defaultdict
from collections.abc import Iterator

from tests.docs.tree import PACKAGES, ROOT, syntax_tree

DOCUMENTED = {"_", "_replace", "_asdict", "_make", "_fields", "_name_", "_value_"}  # named tuples' and enums'
FOREIGN = {  # CPython's and PySpark's, which offer no other way
    "replog/server/slow_steps.py": "_run _callback",
    "replog/simulator/runner.py": "_exit",
    "replog/simulator/runtime/callbacks.py": "_getframe",
    "replog/simulator/runtime/loop.py": "_set_running_loop _get_running_loop _when _cancelled _callback _args _context",
    "spark_jobs/session.py": "_accumulatorServer _active_spark_context _jvm",
}


def _defined(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store())
            ):
                yield name


def _used(tree: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """Line, name, and whether it is used through `self`."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=owner, attr=name, lineno=line):
                yield line, name, isinstance(owner, ast.Name) and owner.id in ("self", "cls")
            case ast.ImportFrom(names=names, lineno=line):
                yield from ((line, alias.name, False) for alias in names)


def test_nobody_uses_the_privates_of_another_package():
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if "v1" not in path.parts]
    trees = {path: syntax_tree(path) for path in files}
    of_file = {path: set(_defined(tree)) for path, tree in trees.items()}
    of_folder = defaultdict(set)
    for path, names in of_file.items():
        of_folder[path.parent] |= names
    strangers = []
    for path, tree in trees.items():
        where = str(path.relative_to(ROOT))
        allowed = DOCUMENTED | set(FOREIGN.get(where, "").split())
        strangers += [
            f"{where}:{line}: {name}"
            for line, name, through_self in _used(tree)
            if name.startswith("_")
            and not name.startswith("__")
            and name not in allowed | (of_folder[path.parent] if through_self else of_file[path])
        ]
    assert not strangers, "\n".join(strangers)
