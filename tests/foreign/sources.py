"""Programs from sources in this tree, built once for each content."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.foreign.tools import kept


def built(name: str, files: Iterable[Path], build: Callable[[Path], object]) -> Path:
    """Return the directory that `build` has filled; of other files it is another one. Raises NoTool."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return kept(f"{name}-{digest.hexdigest()[:12]}", build)
