"""`replog topic …`."""

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replog.cli.asking import (
    ask,
    by_hand,
    how_far,
    log_ends_of,
    not_deleted,
    not_led,
    replicas_of,
    throttles,
    topics_named,
)
from replog.cli.options import (
    BootstrapController,
    BootstrapServer,
    Configs,
    DeleteConfigs,
    OutputFormat,
    name_values,
    number,
    settings_line,
)
from replog.command.app import App
from replog.command.ending import PROBLEM_FOUND
from replog.command.output import Format, note, print_rows
from replog.config.properties import MAX_INT
from replog.topic import TopicPartition

if TYPE_CHECKING:
    from replog.client import PartitionDescription, TopicDescription

app = App(help="Create, list, describe, alter and delete topics.")

MAX_WAITING_SHOWN = 20  # partitions that wait until replicas say how far they go
OFFSETS = {"log_start": "log_start_offset", "high_watermark": "high_watermark", "log_end": "log_end_offset"}
PASSING = ("adding", "removing", "throttle")  # columns that are left out if they are empty in every row

TopicName = Annotated[str, typer.Option("--topic", metavar="NAME", help="Letters, digits, '.', '_' and '-'; 1 to 249.")]


@app.command()
def create(
    topic: TopicName,
    bootstrap: BootstrapServer = None,
    partitions: Annotated[int, number(help="0: the controller's default.")] = 0,
    replication_factor: Annotated[int, number(help="0: the controller's default.")] = 0,
    config: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave a topic of this name as it is, and exit with 0.")
    ] = False,
) -> None:
    """Create a topic, and wait until every partition is led: as long as there are more and more, then a minute.

    Example: `replog topic create --topic flights --partitions 6 --replication-factor 3 --config min.insync.replicas=2`
    """
    from replog.errors import ErrorCode, ReplogError
    from replog.topic import validate_topic_name

    validate_topic_name(topic)
    configs = name_values(config or [], "--config")

    async def created(admin: Any) -> bool:
        try:
            await admin.create_topic(topic, partitions, replication_factor, configs)
        except ReplogError as error:
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists:
                return False
            if error.code is not ErrorCode.LEADER_NOT_AVAILABLE:  # says that the topic is created, but not led yet
                raise
        return True

    if not ask(bootstrap, created):
        note(f"topic {topic} exists already")
        return
    _wait_until_led(bootstrap, topic, f"topic {topic} is created, but not led")
    note(f"created topic {topic}")


def _wait_until_led(bootstrap: str | None, topic: str, failure: str) -> None:
    from replog.local_cluster.probe import wait_for

    led = set[tuple[int, int]]()
    wait_for(
        lambda: ask(bootstrap, lambda admin: not_led(admin, topic, led)),
        f"{failure}; the logs of the brokers may tell why",
        progress=note,
    )


@app.command(name="list")
def list_(bootstrap: BootstrapServer = None, output: OutputFormat = Format.TABLE) -> None:
    """List the topics, one name a line."""
    names: list[str] = ask(bootstrap, lambda admin: admin.list_topics())
    if output is Format.JSON:
        print(json.dumps(names))
    else:
        print("".join(f"{name}\n" for name in names), end="")


@app.command()
def describe(
    topic: Annotated[str | None, typer.Option(metavar="NAME", help="Default: all topics.")] = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated-partitions", help="Only those with a replica out of sync.")
    ] = False,
    unavailable: Annotated[bool, typer.Option("--unavailable-partitions", help="Only those without a leader.")] = False,
    under_min_isr: Annotated[
        bool, typer.Option("--under-min-isr-partitions", help="Only those that refuse acks=all.")
    ] = False,
    at_min_isr: Annotated[
        bool, typer.Option("--at-min-isr-partitions", help="Only those that refuse it with one broker less.")
    ] = False,
    bootstrap: BootstrapServer = None,
    output: OutputFormat = Format.TABLE,
) -> None:
    """Show each partition's leader, replicas, in-sync and eligible replicas (isr, elr); of one topic offsets too.

    The offsets (log start, high watermark, log end) come from the leader; they are missing if it does not answer. While
    a partition is being reassigned, adding and removing show which replicas come and go, and throttle with how many
    bytes a second at most; those that come do not count as out of sync.

    With one of the four conditions, or several, it shows the partitions to which one of them applies. Exit status 1 if
    there are any.

    Examples:

    * `replog topic describe --topic flights`
    * `replog topic describe --under-replicated-partitions`"""
    chosen = under_replicated, unavailable, under_min_isr, at_min_isr
    conditions = [condition for condition, is_chosen in zip(CONDITIONS, chosen, strict=True) if is_chosen]

    async def described(admin: Any) -> tuple[Any, Any, Any, Any]:
        topics = await topics_named(admin, topic)
        waiting = [TopicPartition(t.topic, p.partition) for t in topics for p in t.partitions if p.is_uncertain]
        log_ends, brokers = await log_ends_of(admin, waiting), (await admin.describe_cluster()).brokers
        return topics, brokers, log_ends, {} if topic is None else await replicas_of(admin, topic, brokers, note)

    topics, brokers, log_ends, replicas = ask(bootstrap, described)
    rows = partition_rows(topics, conditions)
    if topic is not None:
        note(f"topic {topic}, id {topics[0].topic_id.hex()}, {settings_line(topics[0].configs)}")
        if throttles(topics, ())["topics"]:
            note(by_hand(topics, brokers))
        for row in rows:
            leading = replicas.get((row["partition"], row["leader"]))
            row |= {column: getattr(leading, field, None) for column, field in OFFSETS.items()}
    if rows or output is Format.JSON:
        usual = [name for name in rows[0] if name not in PASSING or any(row[name] for row in rows)] if rows else []
        print_rows(rows, usual, output)
    for tp, known in islice(log_ends.items(), MAX_WAITING_SHOWN):
        note(f"{tp} waits until it is known how far its replicas go (unclean.recovery.strategy={known.strategy}):")
        note("\n".join(map(how_far, known.replicas)))
    if len(log_ends) > MAX_WAITING_SHOWN:
        note(f"… and {len(log_ends) - MAX_WAITING_SHOWN} more partitions wait so")
    if conditions and rows:
        raise typer.Exit(PROBLEM_FOUND)


Condition = Callable[["TopicDescription", "PartitionDescription"], bool]
CONDITIONS: tuple[Condition, ...] = (
    lambda _, partition: bool(partition.out_of_sync),
    lambda _, partition: partition.leader < 0,
    lambda topic, partition: len(partition.isr) < topic.min_insync_replicas(partition),
    lambda topic, partition: len(partition.isr) == topic.min_insync_replicas(partition),
)
"""A partition is under-replicated, unavailable, under the minimum of in-sync replicas, or at it."""


def partition_rows(topics: Iterable["TopicDescription"], conditions: Sequence[Condition]) -> list[dict[str, Any]]:
    """Return a row for each partition to which one of the conditions applies; without conditions for all."""
    return [
        {
            "topic": topic.topic,
            **{name: getattr(partition, name) for name in ("partition", "leader", "leader_epoch")},
            **{name: list(getattr(partition, name)) for name in ("replicas", "isr", "elr")},
            "adding": list(partition.adding_replicas),
            "removing": list(partition.removing_replicas),
            "throttle": partition.throttle or None,
        }
        for topic in topics
        for partition in topic.partitions
        if not conditions or any(applies(topic, partition) for applies in conditions)
    ]


@app.command()
def alter(
    topic: TopicName,
    bootstrap: BootstrapServer = None,
    partitions: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=MAX_INT, help="Have so many partitions, which must be more than now."),
    ] = None,
    config: Configs = None,
    delete_config: DeleteConfigs = None,
    controller: BootstrapController = None,
) -> None:
    """Change some of a topic's settings while it is used, or add partitions; settings that are not named stay.

    New partitions begin empty, with as many replicas as the first one. Records with a key go to other partitions from
    then on, and those that are there stay where they are. Producers notice within five minutes. Partitions are never
    taken away.

    Examples:

    * `replog topic alter --topic flights --config retention.ms=3600000 --delete-config flush.messages`
    * `replog topic alter --topic flights --partitions 12`"""
    configs = name_values(config or [], "--config")
    if partitions is not None:
        ask(bootstrap, lambda admin: admin.create_partitions(topic, partitions), controller)
        if controller is None:
            _wait_until_led(bootstrap, topic, f"topic {topic} has {partitions} partitions now, but not all are led")
        note(f"topic {topic} has {partitions} partitions")
        if not configs and not delete_config:
            return
    altered: dict[str, str] = ask(
        bootstrap, lambda admin: admin.alter_topic_configs(topic, configs, delete_config or []), controller
    )
    note(f"topic {topic} has {settings_line(altered)}")


@app.command()
def delete(topic: TopicName, bootstrap: BootstrapServer = None, controller: BootstrapController = None) -> None:
    """Delete a topic and all of its records, for good, and wait until brokers know: as long as replicas go, then a
    minute."""
    from replog.errors import ErrorCode, ReplogError
    from replog.local_cluster.probe import wait_for

    async def deleted(admin: Any) -> bytes:
        topic_id: bytes = (await admin.describe_topic(topic)).topic_id
        try:
            await admin.delete_topic(topic)
        except ReplogError as error:
            if error.code is not ErrorCode.REQUEST_TIMED_OUT:  # brokers with much to delete take longer
                raise
        return topic_id

    if controller is not None:
        ask(bootstrap, lambda admin: admin.delete_topic(topic), controller)
        note(f"deleted topic {topic}; brokers delete its replicas when they run")
        return
    topic_id = ask(bootstrap, deleted)
    wait_for(
        lambda: ask(bootstrap, lambda admin: not_deleted(admin, topic, topic_id)),
        f"topic {topic} is not deleted everywhere; the logs of the brokers may tell why",
        progress=note,
    )
    note(f"deleted topic {topic}")
