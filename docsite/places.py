"""Maps files of the repository to pages of the site, and links between the files to links between the pages."""

import posixpath
import re
from collections.abc import Callable

ABOVE = {  # these are not in docs/, which is the site's root
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "tests/scenarios/README.md": "scenarios.md",
}
MADE = {"proto/replog/v1": "wire-reference.md", "replog/client": "api.md"}  # a folder's files make the page
PICTURES = (".png", ".svg")
_LINK = re.compile(r"(?<=\]\()([^)#\s]*)(#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
_FOREIGN = re.compile(r"[a-z]+:")


def page_of(path: str) -> str:
    """Returns the page of a file or folder of the repository: a document's own, a picture, or one that shows it."""
    if path in ABOVE:
        return ABOVE[path]
    for folder, page in MADE.items():
        if path.startswith(folder):
            return page
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    shown = f"source/{path.lstrip('.')}"  # MkDocs leaves out what is hidden
    return shown if path.endswith(PICTURES) else f"{shown}.md"


def targets(text: str, path: str) -> set[str]:
    """Returns the files and folders of the repository that the document at `path` links to."""
    names = (match[1] for match in _LINK.finditer(_FENCE.sub("", text)))
    return {_resolve(name, path) for name in names if name and not _FOREIGN.match(name)}


def with_links(text: str, path: str) -> str:
    """Returns the document at `path`, with links from its page to the pages of others."""
    here = posixpath.dirname(page_of(path))

    def turned(link: re.Match[str]) -> str:
        name, anchor = link[1], link[2] or ""
        if not name or _FOREIGN.match(name):
            return link[0]
        return posixpath.relpath(page_of(_resolve(name, path)), here or ".") + anchor

    return _outside_of_code(text, lambda prose: _LINK.sub(turned, prose))


def _resolve(name: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), name))


def _outside_of_code(text: str, change: Callable[[str], str]) -> str:
    parts, end = [], 0
    for code in _FENCE.finditer(text):
        parts += [change(text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, change(text[end:])])
