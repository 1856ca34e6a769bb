"""What an audit leaves behind: the summary for machines, the page for people."""

from collections import defaultdict
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from spark_jobs.audit.audit import Audit, finding_record
from spark_jobs.audit.findings import EXIT_CODES, MEANINGS, Replica
from spark_jobs.replicas.files import UNREADABLE

LISTED = 1000  # findings in summary and page; the Parquet table has all that were collected

OK, LAGGING, FAULT, UNREAD, ABSENT = "ok", "lagging", "fault", "unreadable", "absent"


def summary(result: Audit) -> dict[str, Any]:
    """The whole result as plain values (findings: the first 1,000)."""
    return {
        "verdict": result.verdict,
        "exit_code": EXIT_CODES[result.verdict],
        "level": result.level,
        "partitions_compared": result.compared,
        "complete": result.complete and len(result.findings) <= LISTED,
        "classes": _counts(result),
        "replicas": [
            {
                "replica": replica.replica,
                "topic": replica.topic,
                "partition": replica.partition,
                "state": state(result, replica),
                "log_start": replica.log_start,
                "high_watermark": replica.high_watermark,
                "log_end": replica.log_end,
                "size": replica.size,
                "segments": replica.segments,
            }
            for replica in sorted(result.replicas, key=_place)
        ],
        "findings": [finding_record(finding) for finding in result.findings[:LISTED]],
        "seconds": result.seconds,
        "bytes_read": result.bytes_read,
    }


def _counts(result: Audit) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for finding in result.findings:
        counts[finding.kind] += 1
    return dict(sorted(counts.items()))


def _place(replica: Replica) -> tuple[str, int, int]:
    return replica.topic, replica.partition, replica.replica


def state(result: Audit, replica: Replica) -> str:
    """How one replica of a partition stands: what the map colours."""
    concerning = [
        finding
        for finding in result.findings
        if (finding.topic, finding.partition) == (replica.topic, replica.partition)
        and (finding.wrong == replica.replica or (finding.wrong is None and replica.replica in finding.replicas))
    ]
    if any(finding.kind != UNREADABLE for finding in concerning):
        return FAULT
    if concerning:
        return UNREAD
    ends = [
        other.log_end
        for other in result.replicas
        if (other.topic, other.partition) == (replica.topic, replica.partition) and other.readable
    ]
    return LAGGING if replica.log_end < max(ends, default=0) else OK


def html_report(result: Audit) -> str:
    """One self-contained page."""
    environment = Environment(
        loader=PackageLoader("spark_jobs.audit"),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    by_partition: dict[tuple[str, int], dict[int, Replica]] = defaultdict(dict)
    for replica in sorted(result.replicas, key=_place):
        by_partition[replica.topic, replica.partition][replica.replica] = replica
    rows = [
        {
            "name": f"{topic}-{partition}" if partition >= 0 else "whole directory",
            "cells": [
                (replica, state(result, replica) if replica else ABSENT)
                for replica in (held.get(number) for number in sorted(result.directories))
            ],
            "start": min(replica.log_start for replica in held.values()),
            "end": max(replica.log_end for replica in held.values()),
        }
        for (topic, partition), held in by_partition.items()
    ]
    sizes = {
        number: sum(replica.size for replica in result.replicas if replica.replica == number)
        for number in sorted(result.directories)
    }
    return environment.get_template("report.html.j2").render(
        result=result,
        rows=rows,
        sizes=sizes,
        counts=_counts(result),
        meanings=MEANINGS,
        listed=LISTED,
        bytes=bytes_text,
    )


def bytes_text(count: int) -> str:
    """`12.3 MB`; powers of 1000."""
    size, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.0f} {units[0]}" if units[0] == "B" else f"{size:.1f} {units[0]}"
