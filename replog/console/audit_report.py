"""The last audit's findings, from the directory that it wrote (`replog audit run --report-dir DIR`)."""

import json
import shlex
from pathlib import Path
from typing import Any

SUMMARY = "summary.json"
MAX_BYTES = 64 << 20
SHOWN = 50  # findings
_FINDING = ("class", "topic", "partition", "first_offset", "last_offset", "wrong_replica", "why", "remedy")


def audit_report(directory: Path) -> dict[str, Any]:
    """Read the verdict and the first findings, or say under `trouble` why they are not known. Waits for a disk."""
    path = directory / SUMMARY
    explain = f"replog audit explain --report-dir {shlex.quote(str(directory))}"
    try:
        with path.open("rb") as file:
            content, changed = file.read(MAX_BYTES + 1), path.stat().st_mtime
        if len(content) > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES >> 20} MiB")
        summary = json.loads(content)
        findings = summary["findings"]
        return {
            "at": int(changed * 1000),
            "explain": explain,
            "count": sum(summary["classes"].values()),
            "findings": [{name: finding[name] for name in _FINDING} for finding in findings[:SHOWN]],
            **{name: summary[name] for name in ("verdict", "level", "partitions_compared", "complete")},
        }
    except FileNotFoundError:
        return {"trouble": f"there is no {path} yet; make it with: replog audit run --report-dir {directory}"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return {"trouble": f"{path} is not the summary of an audit: {error}"}
