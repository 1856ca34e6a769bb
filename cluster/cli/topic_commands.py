"""`replog topic …`."""

import json
from typing import Annotated, Any

import typer

from cluster.cli.asking import ask
from cluster.cli.options import (
    BootstrapServer,
    Configs,
    DeleteConfigs,
    Format,
    OutputFormat,
    name_values,
    settings_line,
)
from cluster.cli.output import note, print_rows

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
    """Create a topic, and wait until every partition has a leader.

    Example: `replog topic create --topic flights --partitions 6 --replication-factor 3 --config min.insync.replicas=2`
    """
    from replog.topic import validate_topic_name

    validate_topic_name(topic)
    configs = name_values(config or [], "--config")
    ask(bootstrap, lambda admin: admin.create_topic(topic, partitions, replication_factor, configs))
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
    """Show each partition's leader, replicas, in-sync replicas and offsets.

    The leader tells the offsets (log start, high watermark, log end); they are missing where it does not answer.
    """

    async def both(admin: Any) -> tuple[Any, Any]:
        return await admin.describe_topic(topic), await admin.describe_cluster()

    description, cluster = ask(bootstrap, both)
    offsets = _offsets(topic, {broker.broker_id: broker.address for broker in cluster.brokers if not broker.fenced})
    rows = [
        {
            "topic": topic,
            "partition": partition.partition,
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "replicas": list(partition.replicas),
            "isr": list(partition.isr),
            "elr": list(partition.elr),
            **offsets.get((partition.partition, partition.leader), _UNKNOWN_OFFSETS),
        }
        for partition in description.partitions
    ]
    columns = {name: name.replace("_", " ") for name in rows[0]} if rows else {}
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
    """Delete a topic and all of its records, for good."""
    ask(bootstrap, lambda admin: admin.delete_topic(topic))
    note(f"deleted topic {topic}")


_UNKNOWN_OFFSETS: dict[str, int | None] = {"log_start": None, "high_watermark": None, "log_end": None}


def _offsets(topic: str, addresses: dict[int, str]) -> dict[tuple[int, int], dict[str, int | None]]:
    """(partition, broker) to offsets, as each broker tells them of the partitions that it leads."""
    from cluster.local import probe
    from replog.errors import ReplogError
    from replog.rpc.methods import Inspection
    from replog.rpc.v1 import inspection_pb2

    found: dict[tuple[int, int], dict[str, int | None]] = {}
    request = inspection_pb2.DescribeReplicasRequest(topic=topic)
    for broker_id, address in addresses.items():
        try:
            answer = probe.call(address, Inspection["describe_replicas"], request, probe.CALL_TIMEOUT_S)
        except ReplogError as error:
            note(f"no offsets from broker {broker_id}: {error.message}")
            continue
        for replica in answer.replicas:
            found[replica.partition, broker_id] = {
                "log_start": replica.log_start_offset,
                "high_watermark": replica.high_watermark,
                "log_end": replica.log_end_offset,
            }
    return found
