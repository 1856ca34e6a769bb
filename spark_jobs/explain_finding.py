"""`replog audit explain` shows a finding of an audit and the bytes around it. It needs no Spark and no Java."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from replog.command.app import App
from replog.command.ending import BadUse
from replog.command.output import Format
from replog.config.properties import MAX_LONG
from spark_jobs.audit.evidence import evidence_of
from spark_jobs.audit.findings import MEANINGS
from spark_jobs.audit.since import BadSaved, read_json
from spark_jobs.command_line import called, ending
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.files import ReplicaStore

NAME = "replog audit explain"
SUMMARY = "summary.json"

app = App(add_completion=False)


@app.command()
def show(
    report_dir: Annotated[Path, typer.Option(metavar="DIR", help="What the audit was given as such.")],
    number: Annotated[int | None, typer.Argument(metavar="N", help="The finding's number in the list, from 1.")] = None,
    output: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
) -> None:
    """Show a finding of an audit, and the bytes around it: what its class means, which replica is most likely wrong and
    why, what to do; batch headers of every replica side by side, a hex dump from the first byte that differs, index
    entries and leader epochs. Without N, list the findings.

    The replicas are read again, from where the audit read them: log directories, or the brokers of a running cluster.
    Nothing is written. Exit status: 0 shown; 2 bad use, such as a directory without a report, or brokers that do not
    answer.

    Examples:

    * `replog audit run --report-dir /tmp/audit --replica 1=/data/1 --replica 2=/data/2`
    * `replog audit explain --report-dir /tmp/audit`
    * `replog audit explain --report-dir /tmp/audit 1`"""
    raise typer.Exit(ending(lambda: _run(report_dir, number, output)))


def read_report(directory: Path) -> dict[str, Any]:
    """Return the summary of an audit, with all values checked that an explanation uses. Raises BadUse."""
    try:
        report: dict[str, Any] = read_json(directory / SUMMARY, "summary of an audit", _checked, "audit again")
    except BadSaved as error:
        raise BadUse(str(error)) from None
    except OSError as error:
        why = f"no report there ({SUMMARY}: {error.strerror}); audit with --report-dir first"
        raise BadUse(f"--report-dir {directory}: {why}") from None
    return report


def _checked(report: Any) -> dict[str, Any]:
    """Check a report, and return it. Raises ValueError, KeyError, TypeError, AttributeError."""
    for finding in report["findings"]:
        _check(finding)
    where = report["where"]
    if "bootstrap_servers" not in where:
        {int(replica): [Path(place) for place in places] for replica, places in where["directories"].items()}
    elif type(where["bootstrap_servers"]) is not str:
        raise ValueError("its bootstrap_servers are no text")
    return dict(report)


def _check(finding: Mapping[str, Any]) -> None:
    evidence = finding["evidence"]
    numbers = [finding["partition"], *finding["replicas"], *(each["replica"] for each in evidence)]
    offsets = [finding[name] for name in ("first_offset", "last_offset", "wrong_replica")]
    offsets += [each["position"] for each in evidence]
    texts = [finding[name] for name in ("class", "topic", "why", "remedy")]
    texts += [each[name] for each in evidence for name in ("file", "seen")]
    if not (
        all(type(value) is str for value in texts)
        and all(type(value) is int for value in numbers)
        and all(value is None or (type(value) is int and 0 <= value <= MAX_LONG) for value in offsets)
        and (finding["first_offset"] is None) == (finding["last_offset"] is None)
    ):
        raise ValueError(f"a finding has values that cannot be: {str(finding)[:100]}")


def explain(report: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return finding `number` (from 1) with its meaning and the bytes around it. Raises BadUse."""
    findings = report["findings"]
    if not 1 <= number <= len(findings):
        has = f"1 to {len(findings)}" if len(findings) > 1 else "1" if findings else "none"
        raise BadUse(f"there is no finding {number}: the report has {has}")
    finding, where = findings[number - 1], report["where"]
    stores: Sequence[ReplicaStore]
    try:
        if "bootstrap_servers" in where:
            from spark_jobs.replicas.brokers import broker_stores

            stores = broker_stores(where["bootstrap_servers"], frozenset({finding["topic"]}))
        else:
            places = [(int(replica), place) for replica, places in where["directories"].items() for place in places]
            stores = [DirectoryStore(replica, Path(place)) for replica, place in sorted(places)]
    except OSError as error:
        raise BadUse(f"the replicas cannot be read again: {error.strerror}") from None
    try:
        shown = evidence_of(finding, stores)
    finally:
        for store in stores:
            store.close()
    return {"number": number, "meaning": MEANINGS.get(finding["class"], ""), **finding, **shown}


def main(argv: Sequence[str] | None = None) -> int:
    return called(app, NAME, argv)


def _run(report_dir: Path, number: int | None, output: Format) -> int:
    from spark_jobs.audit.text import print_explanation, print_findings

    report = read_report(report_dir)
    findings = report["findings"]
    if number is None:
        shown: Any = [{"number": n, **finding} for n, finding in enumerate(findings, 1)]
    else:
        shown = explain(report, number)
    if output is Format.JSON:
        print(json.dumps(shown, indent=2))
    elif number is None:
        print_findings(report, shown)
    else:
        print_explanation(shown, len(findings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
