"""`python -m spark_jobs.follow_replicas`: an audit that goes on, round by round, and tells a divergence as it comes."""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.audit_replicas import BAD_USE, UNKNOWN, BadUse, add_where, missing_packages, where_of

if TYPE_CHECKING:
    from spark_jobs.audit.follow import Round

DESCRIPTION = """\
Compare the replicas of a replicated log again and again: each round compares what is new since the last.

The first round compares everything. What was verified is kept in the checkpoint directory, so that the next run goes
on where this one ended, however it ended: nothing is verified twice, nothing is skipped. A partition is compared as a
whole again, which is said, when its replicas are no longer those that were verified (truncated, replaced, created
anew). One with a finding is compared from there on until it is repaired; a finding is told once."""

EPILOG = """\
in the checkpoint directory
  verified.json   up to where the replicas are verified
  findings/       every finding that was told, as a Parquet table with the column `round`
  stream/         Spark's own checkpoint

Ctrl-C ends it, with a summary. It is a Structured Streaming query; with --master of a
cluster only its driver runs here.

exit codes
  0  every round was CONSISTENT    1  a round was DIVERGED    3  a round was INCONCLUSIVE, none DIVERGED    2  bad use

examples
  replog audit follow --bootstrap-server localhost:9092 --checkpoint-dir /var/lib/audit
  replog audit follow --replica 1=/mnt/a --replica 2=/mnt/b --checkpoint-dir /var/lib/audit --level deep \\
      --until-diverged --format json
"""


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="replog audit follow",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_where(parser)
    parser.add_argument(
        "--checkpoint-dir", type=Path, required=True, metavar="DIR", help="what was verified; created if missing"
    )
    parser.add_argument(
        "--interval",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="from the start of a round to that of the next (default: 10)",
    )
    parser.add_argument("--until-diverged", action="store_true", help="end at the first round that is DIVERGED")
    parser.add_argument("--max-rounds", type=_count, metavar="N", help="end after so many rounds")
    parser.add_argument(
        "--format", choices=("table", "json"), default="table", help="a line a round: for people, or as a JSON object"
    )
    return parser


def _seconds(word: str) -> float:
    seconds = float(word)
    if not 0.1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{word} is not from 0.1 to 86400")
    return seconds


def _count(word: str) -> int:
    if not (word.isascii() and word.isdigit() and 0 < int(word) < 2**31):
        raise argparse.ArgumentTypeError(f"{word} is not a number of rounds, 1 or more")
    return int(word)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    arguments = parser().parse_args(argv)
    try:
        where = where_of(arguments)
        if missing := missing_packages():
            raise BadUse(missing)
    except (BadUse, OSError) as error:
        return _fail(BAD_USE, str(error))
    return _follow(arguments, where)


def _follow(arguments: argparse.Namespace, where: dict[int, tuple[Path, ...]] | str) -> int:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from spark_jobs.audit.findings import EXIT_CODES, Finding
    from spark_jobs.audit.follow import Follower, read_state
    from spark_jobs.audit.since import BadSaved
    from spark_jobs.java import NoJava
    from spark_jobs.session import spark_session

    told: list[Finding] = []

    def tell(done: "Round") -> None:
        told.extend(done.new)
        if arguments.format == "json":
            print(json.dumps({"time": datetime.now(UTC).isoformat(timespec="seconds"), **done.as_json()}), flush=True)
        else:
            print("\n".join(_lines(done)), flush=True)

    try:
        state = read_state(arguments.checkpoint_dir)
        if state.round >= 0:
            print(f"going on after round {state.round} of {arguments.checkpoint_dir}", file=sys.stderr)
        spark = spark_session("replog audit follow", arguments.master)
    except (NoJava, BadSaved, OSError) as error:
        return _fail(BAD_USE, str(error))
    follower = Follower(spark, where, arguments.topic, arguments.level, arguments.checkpoint_dir, tell)
    follower.until_diverged, follower.max_rounds = arguments.until_diverged, arguments.max_rounds

    def stop(*_: object) -> None:
        follower.stopping = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        follower.run(arguments.interval)
    except (PySparkException, Py4JError, BadSaved, OSError) as error:
        return _fail(UNKNOWN, f"the audit itself failed: {error}")
    finally:
        spark.stop()
    if arguments.format == "table":
        where_told = f", see {arguments.checkpoint_dir / 'findings'}" if told else ""
        print(f"{follower.verdict}: {len(follower.rounds)} rounds, {len(told)} new findings{where_told}")
    return EXIT_CODES[follower.verdict]


def _lines(done: "Round") -> list[str]:
    """A line of the round, and one for each thing that it has to tell."""
    now = datetime.now(UTC).astimezone().strftime("%H:%M:%S")
    findings = f"{len(done.new)} new findings" + (f", {done.known} known" if done.known else "")
    lines = [
        f"{now}  round {done.number:<5} {done.verdict:<12}  {done.offsets:>12,} offsets in {done.partitions} "
        f"partitions  {findings}  {done.seconds:.1f} s"
    ]
    if done.error is not None:
        lines.append(f"  failed, and left to the next round: {done.error.splitlines()[0]}")
    lines += [f"  {partition}: compared as a whole: {why}" for partition, why in sorted(done.whole.items())]
    for finding in done.new:
        offsets = "" if finding.first is None else f" offsets {finding.first} to {finding.last}"
        wrong = "undetermined" if finding.wrong is None else f"replica {finding.wrong}"
        lines.append(f"  {finding.kind} {finding.topic}-{finding.partition}{offsets}: {wrong}: {finding.why}")
    return lines


def _fail(code: int, message: str) -> int:
    print(f"audit follow: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
