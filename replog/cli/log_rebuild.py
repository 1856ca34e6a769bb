"""The work of `replog log rebuild-index`: a table of what changed, or one JSON object a line for every index."""

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from replog.command.output import Format, note, print_rows
from replog.command.progress import progress
from replog.log.files.names import LOG_SUFFIX
from replog.log_tools.rebuild import RebuiltIndex, RefusedSegment, rebuild
from replog.log_tools.verify.paths import log_bytes, path_kind

_COLUMNS = {"file": "FILE", "before": "BEFORE", "after": "AFTER", "result": "RESULT"}


def rebuild_paths(paths: Sequence[Path], interval: int, *, digest: bool, dry_run: bool, as_json: bool) -> bool:
    """Print a row for each index that changes, and for each segment that was refused. Return True if one was.

    Raises ReplogError, OSError."""
    for path in paths:
        path_kind(path)
    results = []
    with progress(sum(map(log_bytes, paths))) as on_bytes:
        log = None
        for result in chain.from_iterable(rebuild(path, interval, digest=digest, dry_run=dry_run) for path in paths):
            if log != (log := result.path.with_suffix(LOG_SUFFIX)):
                on_bytes(log_bytes(log))
            results.append(result)
            if as_json:
                print(json.dumps(_fields(result, dry_run), ensure_ascii=False), flush=True)
    news = [result for result in results if isinstance(result, RefusedSegment) or result.changed]
    refused = sum(isinstance(result, RefusedSegment) for result in news)
    if news and not as_json:
        print_rows([_fields(result, dry_run) for result in news], _COLUMNS, Format.TABLE, _line)
    verb = "that would change" if dry_run else "changed"
    note(f"index files {verb}: {len(news) - refused} of {len(results) - refused}, segments refused: {refused}")
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


def _line(fields: Mapping[str, Any]) -> str:
    entries = "" if fields["before"] == fields["after"] else f", entries {fields['before']} to {fields['after']}"
    return f"{fields['file']}: {fields['result']}{entries}"
