"""`python -m spark_jobs.audit.explain`: a finding of an audit, and the bytes around it. Needs no Spark and no Java."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_jobs.audit.evidence import evidence_of
from spark_jobs.audit.findings import MEANINGS
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.files import ReplicaStore

BAD_USE = 2
SUMMARY = "summary.json"
MAX_SUMMARY_BYTES = 256 << 20

DESCRIPTION = """\
Show a finding of an audit: what its class means, which replica is most likely wrong and why, what to do, and the bytes
around it: batch headers of every replica side by side, a hex dump from the first byte that differs, index entries and
leader epochs. Without N, list the findings.

The replicas are read again, from where the audit read them: log directories, or the brokers of a running cluster.
Nothing is written."""

EPILOG = """\
exit codes
  0  shown    2  bad use, such as a directory without a report

examples
  replog audit run --replica 1=/data/1 --replica 2=/data/2 --report-dir /tmp/audit
  replog audit explain --report-dir /tmp/audit
  replog audit explain --report-dir /tmp/audit 1
"""


class BadReport(Exception):
    """A report that cannot be used; the message names the file and the remedy."""


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="replog audit explain",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("number", nargs="?", type=int, metavar="N", help="the finding's number in the list, from 1")
    parser.add_argument(
        "--report-dir", type=Path, required=True, metavar="DIR", help="what the audit was given as such"
    )
    parser.add_argument("--format", choices=("table", "json"), default="table", help="how to print (default: table)")
    return parser


def read_report(directory: Path) -> dict[str, Any]:
    """The summary of an audit, checked as far as an explanation leans on it. Raises BadReport."""
    path = directory / SUMMARY
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_SUMMARY_BYTES + 1)
    except OSError as error:
        raise BadReport(f"--report-dir {directory}: no report there ({error}); audit with --report-dir first") from None
    try:
        report = json.loads(raw[:MAX_SUMMARY_BYTES])
        for finding in report["findings"]:
            _check(finding)
        where = report["where"]
        if "bootstrap_servers" not in where:
            {int(replica): [Path(place) for place in places] for replica, places in where["directories"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"{type(error).__name__}: {str(error)[:200]}"
        raise BadReport(f"{path} is no summary of an audit of this version ({what}); audit again") from None
    return dict(report)


def _check(finding: Mapping[str, Any]) -> None:
    numbers = ("partition",)
    maybe = ("first_offset", "last_offset", "wrong_replica")
    texts = ("class", "topic", "why", "remedy")
    evidence = finding["evidence"]
    right = (
        all(type(finding[name]) is int for name in numbers)
        and all(finding[name] is None or type(finding[name]) is int for name in maybe)
        and all(type(finding[name]) is str for name in texts)
        and all(type(each["replica"]) is int and type(each["file"]) is str for each in evidence)
        and all(each["position"] is None or type(each["position"]) is int for each in evidence)
        and all(type(each["seen"]) is str for each in evidence)
        and all(type(replica) is int for replica in finding["replicas"])
    )
    if not right or any((each["position"] or 0) < 0 for each in evidence):
        raise ValueError(f"a finding with wrong fields: {str(finding)[:100]}")


def stores_of(where: Mapping[str, Any], topic: str) -> list[ReplicaStore]:
    """Where the audit read the replicas. Raises BadReport, OSError."""
    if "bootstrap_servers" in where:
        from spark_jobs.replicas.brokers import broker_stores

        return list(broker_stores(where["bootstrap_servers"], frozenset({topic})))
    return [
        DirectoryStore(int(replica), Path(place))
        for replica, places in sorted(where["directories"].items())
        for place in places
    ]


def explain(report: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Finding `number` (from 1) with its meaning and the bytes around it. Raises BadReport, OSError."""
    findings = report["findings"]
    if not 1 <= number <= len(findings):
        has = f"1 to {len(findings)}" if findings else "none"
        raise BadReport(f"there is no finding {number}: the report has {has}")
    finding = findings[number - 1]
    stores = stores_of(report["where"], finding["topic"])
    try:
        shown = evidence_of(finding, stores)
    finally:
        for store in stores:
            store.close()
    return {"number": number, "meaning": MEANINGS.get(finding["class"], ""), **finding, **shown}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    from spark_jobs.audit.explain_text import print_explanation, print_findings

    arguments = parser().parse_args(argv)
    try:
        report = read_report(arguments.report_dir)
        if arguments.number is None:
            shown: Any = [{"number": n, **finding} for n, finding in enumerate(report["findings"], 1)]
        else:
            shown = explain(report, arguments.number)
    except (BadReport, OSError) as error:
        print(f"audit explain: {error}", file=sys.stderr)
        return BAD_USE
    if arguments.format == "json":
        print(json.dumps(shown, indent=2))
    elif arguments.number is None:
        print_findings(report, shown)
    else:
        print_explanation(shown, len(report["findings"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
