"""The work of `replog log rebuild-index`: what changed, index by index."""

import json
from collections.abc import Sequence
from pathlib import Path

from cluster.cli.options import Format
from cluster.cli.output import note, print_rows
from replog.log.rebuild import RebuiltIndex, RefusedSegment, rebuild
from replog.log.verify.paths import path_kind

_COLUMNS = {"file": "FILE", "before": "BEFORE", "after": "AFTER", "result": "RESULT"}


def rebuild_paths(paths: Sequence[Path], interval: int, *, digest: bool, dry_run: bool, as_json: bool) -> bool:
    """Print a row for each index, and for each segment that was refused; whether there was any of those."""
    for path in paths:
        path_kind(path)
    rows = []
    changed = refused = 0
    for path in paths:
        for result in rebuild(path, interval, digest=digest, dry_run=dry_run):
            row = _fields(result, dry_run)
            refused += isinstance(result, RefusedSegment)
            changed += isinstance(result, RebuiltIndex) and result.changed
            if as_json:
                print(json.dumps(row, ensure_ascii=False), flush=True)
            rows.append(row)
    if not as_json:
        print_rows(rows, _COLUMNS, Format.TABLE)
    note(f"index files {'that would change' if dry_run else 'changed'}: {changed}, segments refused: {refused}")
    return refused > 0


def _fields(result: RebuiltIndex | RefusedSegment, dry_run: bool) -> dict[str, str | int | None]:
    if isinstance(result, RefusedSegment):
        return {"file": str(result.path), "before": None, "after": None, "result": f"refused: {result.reason}"}
    verb = ("would be " if dry_run else "") + ("removed" if result.after is None else "replaced")
    return {
        "file": str(result.path),
        "before": result.before,
        "after": result.after,
        "result": verb if result.changed else "as it was",
    }
