"""`replog log …`: offline, on the files of a replica."""

from pathlib import Path
from typing import Annotated

import typer

from replog.cli.options import OutputFormat
from replog.command.app import App
from replog.command.ending import PROBLEM_FOUND
from replog.command.output import Format

app = App(help="Show, check and repair the files of a replica, replog's or Apache Kafka's, without a broker.")

Deep = Annotated[bool, typer.Option("--deep", help="Decode the records of each batch too.")]


@app.command()
def dump(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH", help="Segment files, checkpoints and `partition.metadata`, or directories of them."
        ),
    ],
    deep: Deep = False,
    output: OutputFormat = Format.TABLE,
) -> None:
    """Print what is in the files of a partition's directory: batches, index entries, producers, leader epochs.

    Every batch's CRC is checked. Damage is printed where it is; the exit status is then 1. JSON is one object a line.
    A directory stands for its files, in order; other files in it are passed over. Nothing is written.

    Example: `replog log dump --deep data/flights-0/00000000000000000000.log`"""
    from replog.cli.log_reports import dump_paths

    if dump_paths(paths, deep, output is Format.JSON):
        raise typer.Exit(PROBLEM_FOUND)


@app.command()
def verify(
    paths: Annotated[list[Path], typer.Argument(metavar="DIR", help="Log directories, or partition directories.")],
    deep: Deep = False,
    compacted: Annotated[
        bool,
        typer.Option(
            "--compacted",
            help="Missing offsets are no fault. The default if `cleaner-offset-checkpoint` names the partition.",
        ),
    ] = False,
    output: OutputFormat = Format.TABLE,
) -> None:
    """Check everything about a replica's files that can be checked offline. Nothing is written.

    Every byte of every batch is read and its CRC computed; offsets and leader epochs must continue; indexes, digests,
    transaction indexes, producer snapshots, the epoch checkpoint and the offset checkpoints must agree with the
    batches. With `--deep` every record is decompressed and decoded too, which takes many times as long and finds what
    was written wrong under a right CRC.

    Exit status: 0 no fault, 1 a fault was found. Notes are no faults: leftovers of deletions, or the torn end of a log
    whose broker did not stop in order. On the directory of a running broker, which is noted, everything that concerns
    the newest files is a moving target: verify again when it is stopped.

    Example: `replog log verify data`"""
    from replog.cli.log_reports import verify_paths

    if verify_paths(paths, deep=deep, compacted=compacted, as_json=output is Format.JSON):
        raise typer.Exit(PROBLEM_FOUND)


@app.command()
def survey(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR", help="All log directories of one broker.")],
) -> None:
    """Print what the log directories of a stopped broker hold, for `replog controller restore` on another host.

    One JSON object a line, some 150 bytes for a replica: topic id, leader epochs, log end. Nothing is written. The
    broker stays stopped until the metadata store is restored.

    Example: `replog log survey /data/1 > broker-1.survey`"""
    import time

    from replog.command.output import note
    from replog.log_tools.survey import survey as survey_directory
    from replog.log_tools.survey import survey_lines

    surveys = [survey_directory(directory) for directory in directories]
    for line in survey_lines(surveys, time.time_ns() // 1_000_000):
        print(line)
    replicas, passed_over = sum(len(each.replicas) for each in surveys), sum(len(each.passed_over) for each in surveys)
    note(f"broker {surveys[0].broker_id}: directories {len(surveys)}, replicas {replicas}, passed over {passed_over}")


@app.command("set-topic-id")
def set_topic_id(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR", help="Partition directories of one topic.")],
    topic_id: Annotated[str, typer.Option(help="As `replog topic describe` shows it, or in base64.")],
) -> None:
    """Write a lost or damaged `partition.metadata` again: which topic the replica belongs to.

    A file that names another topic is left alone. The broker may run: it tries the replica again within a minute.

    Example: `replog log set-topic-id --topic-id 5d41402abc4b2a76b9719d911017c592 data/flights-0`"""
    from replog.command.output import note
    from replog.log.directories.partition_metadata import parse_topic_id, restore_topic_id

    wanted = parse_topic_id(topic_id)
    for directory in directories:
        restore_topic_id(directory, wanted)
        note(f"{directory} belongs to topic {wanted.hex()}")
