"""The project's own files, for tests that read them."""

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SOURCES = sorted(path.parent.name for path in ROOT.glob("pyspark_replog*/__init__.py"))
PACKAGES = ("replog", "leader", "follower", "spark_jobs", *_SOURCES, "benchmarks", "docsite")
GENERATED = ROOT / "replog" / "rpc" / "v1"
DOCUMENTS = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    *(f"docs/{p.name}" for p in ROOT.glob("docs/*.md")),
]
_PICTURES = {".png"}
_NOT_OURS = {"__pycache__", "build", "dist", "artifacts"}

_RULE = re.compile(r"\b(?:FN|RB|IX|SG|LG|LD|EP|PS|CL|ST|PR|FE|HW|ISR|FT|PG|CT|INV)-\d+\b")
_CASE = re.compile(r"\b(?:[A-Z]-)?W-[A-Z]\d+\b")


def text_files(*suffixes: str) -> Iterator[tuple[str, str]]:
    """Path from the root, and content, of every file that people wrote; no hidden, generated ones or pictures."""
    return ((path, text) for path, text in _text_files() if not suffixes or path.endswith(suffixes))


@cache
def _text_files() -> list[tuple[str, str]]:
    files = []
    for directory, folders, names in os.walk(ROOT):
        folders[:] = filter(_is_ours, folders)  # what is in the others is never looked at: there are very many
        for path in (Path(directory, name) for name in filter(_is_ours, names)):
            if path.is_file() and GENERATED not in path.parents and path.suffix not in _PICTURES:
                files.append(("/".join(path.relative_to(ROOT).parts), path.read_text(encoding="utf-8")))
    return sorted(files)


@cache
def syntax_tree(path: Path) -> ast.Module:
    """Of a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def _is_ours(name: str) -> bool:
    return not (name.startswith(".") or name in _NOT_OURS or name.endswith(".egg-info"))


def package_of(path: str) -> str:
    """`replog/log` for `replog/log/files/cold.py`, and `leader` for `leader/roles.py`."""
    top, *rest = path.split("/")[:-1]
    return f"{top}/{rest[0]}" if top in ("replog", "spark_jobs") and rest else top


def registered_rules() -> list[str]:
    return re.findall(r"^- \*\*([A-Z]+-\d+)\*\* \S", (ROOT / "docs/rules.md").read_text(), re.M)


def quoted(text: str) -> tuple[set[str], set[str]]:
    """The identifiers of rules and of worked cases in `text`."""
    return set(_RULE.findall(text)), set(_CASE.findall(text))


def blocks(path: str, section: str = "") -> list[str]:
    """Shell lines: every command and every piece of Python in a document, or in one section of it."""
    text = (ROOT / path).read_text()
    if section:
        text = text.partition(f"## {section}\n")[2].partition("\n## ")[0]
    lines: list[str] = []
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S):
        if language == "python":
            lines.append(f"python - <<'END'\n{block}END")
        else:
            lines += re.findall(r"^\$ (.*)", block, re.M)
    return lines
