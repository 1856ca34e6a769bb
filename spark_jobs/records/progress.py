"""Computes how far a streaming query is behind.

Spark takes no `metrics` of a progress report from a Python source, so they are computed from its offsets."""

import json
from collections.abc import Mapping
from typing import Any

from spark_jobs.records.offsets import StreamOffset


def offsets_behind_latest(source: Mapping[str, Any]) -> dict[str, str]:
    """Return the `metrics` that Spark's Kafka source would have, for one of a progress report's `sources`.

    They are empty before the first micro-batch."""
    ends = [source["endOffset"], source["latestOffset"]]
    read, latest = (json.loads(end) if isinstance(end, str) and end not in ("", "None") else end for end in ends)
    if not isinstance(read, dict) or not isinstance(latest, dict):
        return {}
    begun, ended = StreamOffset.from_json(read).offsets, StreamOffset.from_json(latest).offsets
    behind = [max(0, ended[partition] - offset) for partition, offset in begun.items() if partition in ended]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
    }
