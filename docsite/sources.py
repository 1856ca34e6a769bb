"""Makes pages that show files of the repository, so that a link to code or to a manifest works without a checkout."""

from collections.abc import Iterator
from pathlib import Path

_LANGUAGES = {"": "text", ".js": "javascript", ".proto": "protobuf", ".py": "python", ".service": "ini", ".txt": "text"}
_MADE = {"go.sum", "package-lock.json"}  # tools make these, and nobody reads them


def source_page(root: Path, path: str) -> str:
    """Returns Markdown that shows the file at `path`, or all files below it."""
    place = root / path
    files = [place] if place.is_file() else list(_files(place))
    if not files:
        raise ValueError(f"{path}: a document links to it, and there is no file")
    shown = [f"# {path}"]
    for file in files:
        if file != place:
            shown.append(f"## {file.relative_to(place)}")
        shown.append(
            f"`````{_LANGUAGES.get(file.suffix, file.suffix[1:] or 'text')}\n{file.read_text().rstrip()}\n`````"
        )
    return "\n\n".join(shown) + "\n"


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        hidden = any(part.startswith((".", "__pycache__", "node_modules")) for part in inside)
        if path.is_file() and not hidden and path.name not in _MADE:
            yield path
