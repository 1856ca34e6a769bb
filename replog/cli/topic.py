"""`replog topic …`."""

import json
from typing import Annotated, Any

import typer

from replog.cli.asking import UNKNOWN_OFFSETS, ask, not_deleted, not_led, replica_offsets
from replog.cli.options import BootstrapServer, Configs, DeleteConfigs, OutputFormat, name_values, settings_line
from replog.command.output import Format, note, print_rows

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode="markdown", help="Create, list, describe, alter and delete topics."
)

TopicName = Annotated[str, typer.Option("--topic", metavar="NAME", help="Letters, digits, '.', '_' and '-'; 1 to 249.")]


@app.command()
def create(
    topic: TopicName,
    bootstrap: BootstrapServer = None,
    partitions: Annotated[int, typer.Option(min=0, help="0: the controller's default.")] = 0,
    replication_factor: Annotated[int, typer.Option(min=0, help="0: the controller's default.")] = 0,
    config: Configs = None,
) -> None:
    """Create a topic, and wait until every partition is led: as long as there are more and more, then a minute.

    Example: `replog topic create --topic flights --partitions 6 --replication-factor 3 --config min.insync.replicas=2`
    """
    from replog.errors import ErrorCode, ReplogError
    from replog.local_cluster.waiting import wait_for
    from replog.topic import validate_topic_name

    validate_topic_name(topic)
    configs = name_values(config or [], "--config")

    async def created(admin: Any) -> None:
        try:
            await admin.create_topic(topic, partitions, replication_factor, configs)
        except ReplogError as error:
            if error.code is not ErrorCode.LEADER_NOT_AVAILABLE:  # that follows a creation
                raise

    ask(bootstrap, created)
    led = set[tuple[int, int]]()
    wait_for(
        lambda: ask(bootstrap, lambda admin: not_led(admin, topic, led)),
        f"topic {topic} is created, but not led; the logs of the brokers may tell why",
        progress=note,
    )
    note(f"created topic {topic}")


@app.command(name="list")
def list_(bootstrap: BootstrapServer = None, output: OutputFormat = Format.TABLE) -> None:
    """List the topics, one name a line."""
    names: list[str] = ask(bootstrap, lambda admin: admin.list_topics())
    if output is Format.JSON:
        print(json.dumps(names))
    else:
        print("".join(f"{name}\n" for name in names), end="")


@app.command()
def describe(topic: TopicName, bootstrap: BootstrapServer = None, output: OutputFormat = Format.TABLE) -> None:
    """Show each partition's leader, replicas, in-sync and eligible replicas (isr, elr) and offsets.

    The offsets (log start, high watermark, log end) come from the leader; they are missing if it does not answer. While
    a partition is being reassigned, adding and removing show which replicas come and go.
    """

    async def both(admin: Any) -> tuple[Any, Any]:
        return await admin.describe_topic(topic), await admin.describe_cluster()

    description, cluster = ask(bootstrap, both)
    offsets = replica_offsets(topic, cluster.brokers)
    rows = [
        {
            "topic": topic,
            "partition": partition.partition,
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "replicas": list(partition.replicas),
            "isr": list(partition.isr),
            "elr": list(partition.elr),
            "adding": list(partition.adding_replicas),
            "removing": list(partition.removing_replicas),
            **offsets.get((partition.partition, partition.leader), UNKNOWN_OFFSETS),
        }
        for partition in description.partitions
    ]
    usual = [name for name in rows[0] if name not in ("adding", "removing") or any(row[name] for row in rows)]
    columns = {name: name.replace("_", " ") for name in usual}
    note(f"topic {topic}, id {description.topic_id.hex()}, {settings_line(description.configs)}")
    print_rows(rows, columns, output)


@app.command()
def alter(
    topic: TopicName,
    bootstrap: BootstrapServer = None,
    config: Configs = None,
    delete_config: DeleteConfigs = None,
) -> None:
    """Change some of a topic's settings while it is used; those that are not named stay.

    Example: `replog topic alter --topic flights --config retention.ms=3600000 --delete-config flush.messages`
    """
    configs = name_values(config or [], "--config")
    altered: dict[str, str] = ask(
        bootstrap, lambda admin: admin.alter_topic_configs(topic, configs, delete_config or [])
    )
    note(f"topic {topic} has {settings_line(altered)}")


@app.command()
def delete(topic: TopicName, bootstrap: BootstrapServer = None) -> None:
    """Delete a topic and all of its records, for good, and wait until brokers know: as long as replicas go, then a
    minute."""
    from replog.errors import ErrorCode, ReplogError
    from replog.local_cluster.waiting import wait_for

    async def deleted(admin: Any) -> bytes:
        topic_id: bytes = (await admin.describe_topic(topic)).topic_id
        try:
            await admin.delete_topic(topic)
        except ReplogError as error:
            if error.code is not ErrorCode.REQUEST_TIMED_OUT:  # brokers that have much to delete know it for longer
                raise
        return topic_id

    topic_id = ask(bootstrap, deleted)
    wait_for(
        lambda: ask(bootstrap, lambda admin: not_deleted(admin, topic, topic_id)),
        f"topic {topic} is not deleted everywhere; the logs of the brokers may tell why",
        progress=note,
    )
    note(f"deleted topic {topic}")
