"""`replog produce`: lines in, records out."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cluster.cli.errors import PROBLEM_FOUND
from cluster.cli.options import BootstrapServer, bootstrap_server


class Acks(StrEnum):
    ALL = "all"
    ONE = "1"
    NONE = "0"


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def produce(
    topic: Annotated[str, typer.Option(help="Where the records go.")],
    bootstrap: BootstrapServer = None,
    file: Annotated[Path | None, typer.Option(help="Read this file instead of stdin.")] = None,
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Each line is KEY TEXT VALUE, cut at the first TEXT.")
    ] = None,
    null_marker: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="A value that is TEXT is none: it deletes its key when compacted."),
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Send everything to this partition.")] = None,
    acks: Annotated[Acks, typer.Option(help="Who must have a record: every in-sync replica, the leader, nobody.")] = (
        Acks.ALL
    ),
    compression: Annotated[Compression, typer.Option(help="Codec of the batches.")] = Compression.NONE,
    batch_size: Annotated[
        int, typer.Option(min=1, max=1 << 20, metavar="BYTES", help="Size of a full batch.")
    ] = 262_144,
    linger_ms: Annotated[float, typer.Option(min=0, help="How long a batch waits for more records.")] = 5,
) -> None:
    """Send each line of stdin (or a file) as one record; the counts come on stderr at the end.

    Records with the same key go to the same partition, as with every Kafka client. Records that were refused are
    named by line; the exit status is then 1.

    Examples: `echo hello | replog produce --topic greetings`,
    `replog produce --topic users --file users.txt --key-separator : --null-marker NULL`
    """
    import asyncio

    from cluster import logging
    from cluster.cli.asking import partitions_of
    from cluster.cli.produce_lines import Source, produce_lines
    from replog.client import Producer
    from replog.topic import validate_topic_name

    validate_topic_name(topic)
    logging.configure(30)
    brokers = bootstrap_server(bootstrap)
    producer = Producer(
        brokers,
        acks=1 if acks is Acks.ONE else 0 if acks is Acks.NONE else "all",
        compression=compression.value,
        batch_size=batch_size,
        linger_ms=linger_ms,
    )
    source = Source(
        file,
        key_separator.encode() if key_separator is not None else None,
        null_marker.encode() if null_marker is not None else None,
    )

    async def run() -> bool:
        await partitions_of(brokers, topic, partition)
        return await produce_lines(producer, topic, partition, source)

    if asyncio.run(run()):
        raise typer.Exit(PROBLEM_FOUND)
