"""`replog acl …`, with the words of Kafka's kafka-acls.sh; and `replog client-quota`."""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Annotated, Any, Literal

import typer

from replog.cli.asking import ask
from replog.cli.options import (
    BootstrapController,
    BootstrapServer,
    Configs,
    DeleteConfigs,
    OutputFormat,
    check,
    name_values,
    settings_line,
)
from replog.command.app import App
from replog.command.output import Format, note, print_rows
from replog.common.acl import CLUSTER_NAME, WILDCARD, Acl, AclFilter, Operation, PatternType, Permission, ResourceType

app = App(help="Say who may do what: add, list and remove ACLs.")


COLUMNS = "resource", "name", "pattern", "principal", "host", "operation", "permission"
PRODUCER = Operation.WRITE, Operation.DESCRIBE, Operation.CREATE
CONSUMER = Operation.READ, Operation.DESCRIBE


Topics = Annotated[
    list[str] | None, typer.Option("--topic", metavar="NAME", help="On this topic; '*' is all of them. Repeatable.")
]
OnCluster = Annotated[bool, typer.Option("--cluster", help="On the cluster itself.")]
PatternName = Literal["any", "match", "literal", "prefixed"]
Pattern = Annotated[
    PatternName,
    typer.Option("--resource-pattern-type", metavar="TYPE", case_sensitive=False, help="any, match, literal, prefixed"),
]
Allowed = Annotated[
    list[str] | None, typer.Option("--allow-principal", metavar="User:NAME", help="'User:*' is anybody. Repeatable.")
]
Denied = Annotated[
    list[str] | None, typer.Option("--deny-principal", metavar="User:NAME", help="Wins over allowed. Repeatable.")
]
AllowedHosts = Annotated[list[str] | None, typer.Option("--allow-host", metavar="ADDRESS", help="Default: any.")]
DeniedHosts = Annotated[list[str] | None, typer.Option("--deny-host", metavar="ADDRESS", help="Default: any.")]
Operations = Annotated[
    list[str] | None,
    typer.Option("--operation", metavar="NAME", help="Such as Read, Write, Describe, Alter; default: All. Repeatable."),
]
ForProducer = Annotated[bool, typer.Option("--producer", help="Write, Describe and Create on the topics.")]
ForConsumer = Annotated[bool, typer.Option("--consumer", help="Read and Describe on the topics.")]


@app.command()
def add(
    bootstrap: BootstrapServer = None,
    topic: Topics = None,
    cluster: OnCluster = False,
    pattern: Pattern = "literal",
    allow_principal: Allowed = None,
    deny_principal: Denied = None,
    allow_host: AllowedHosts = None,
    deny_host: DeniedHosts = None,
    operation: Operations = None,
    producer: ForProducer = False,
    consumer: ForConsumer = False,
) -> None:
    """Add ACLs, all or none. Those that exist stay.

    Example: `replog acl add --allow-principal User:ann --operation Read --topic flights`"""
    check(topic or cluster, "name --topic or --cluster")
    check(allow_principal or deny_principal, "name --allow-principal or --deny-principal")
    acls = list(
        _acls(
            _resources(topic, cluster, pattern),
            _sides(allow_principal, allow_host, deny_principal, deny_host),
            _operations(operation, producer, consumer) or [Operation.ALL],
        )
    )
    created: int = ask(bootstrap, lambda admin: admin.create_acls(acls))
    note(f"added {created} ACLs" + (f"; {len(acls) - created} were there" if created < len(acls) else ""))


@app.command(name="list")
def list_(
    bootstrap: BootstrapServer = None,
    topic: Topics = None,
    cluster: OnCluster = False,
    pattern: Pattern = "any",
    principal: Annotated[list[str] | None, typer.Option(metavar="User:NAME", help="Of these only. Repeatable.")] = None,
    output: OutputFormat = Format.TABLE,
) -> None:
    """List ACLs. `--resource-pattern-type match` with a topic's name lists all that apply to it."""
    named: list[Resource | None] = [*_resources(topic, cluster, pattern)] or [None]
    wanted = AclFilter(pattern_type=PatternType[pattern.upper()])
    filters = [
        AclFilter(*(resource or wanted[:3]), principal=who) for resource in named for who in principal or (None,)
    ]

    async def asked(admin: Any) -> set[Acl]:
        return {acl for each in filters for acl in await admin.describe_acls(each)}

    listed = ask(bootstrap, asked)
    words = ((part if isinstance(part, str) else part.name for part in acl) for acl in sorted(listed))
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in words]
    print_rows(rows, COLUMNS, output)


@app.command()
def remove(
    bootstrap: BootstrapServer = None,
    topic: Topics = None,
    cluster: OnCluster = False,
    pattern: Pattern = "literal",
    allow_principal: Allowed = None,
    deny_principal: Denied = None,
    allow_host: AllowedHosts = None,
    deny_host: DeniedHosts = None,
    operation: Operations = None,
    producer: ForProducer = False,
    consumer: ForConsumer = False,
    force: Annotated[
        bool, typer.Option("--force", help="Remove all ACLs of the resource, if no principal is named.")
    ] = False,
) -> None:
    """Remove the ACLs that `add` would add; with `--force` and no principal all of a resource.

    Example: `replog acl remove --allow-principal User:ann --operation Read --topic flights`"""
    check(topic or cluster, "name --topic or --cluster")
    resources = _resources(topic, cluster, pattern)
    operations = _operations(operation, producer, consumer)
    if allow_principal or deny_principal:
        sides = _sides(allow_principal, allow_host, deny_principal, deny_host)
        filters = [AclFilter(*acl) for acl in _acls(resources, sides, operations or [Operation.ALL])]
    else:
        check(force, "name --allow-principal or --deny-principal; or say --force to remove all ACLs of the resource")
        filters = [
            AclFilter(*resource, operation=each) for resource in resources for each in operations or [Operation.ANY]
        ]
    deleted: int = ask(bootstrap, lambda admin: admin.delete_acls(filters))
    note(f"removed {deleted} ACLs")


Resource = tuple[ResourceType, str, PatternType]
Side = tuple[str, str, Permission]


def _resources(topics: list[str] | None, cluster: bool, pattern: PatternName) -> list[Resource]:
    named = [(ResourceType.TOPIC, topic, PatternType[pattern.upper()]) for topic in topics or ()]
    return named + [(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)] * cluster


def _sides(
    allowed: list[str] | None, allow_hosts: list[str] | None, denied: list[str] | None, deny_hosts: list[str] | None
) -> list[Side]:
    return [
        *((who, host, Permission.ALLOW) for who, host in product(allowed or (), allow_hosts or [WILDCARD])),
        *((who, host, Permission.DENY) for who, host in product(denied or (), deny_hosts or [WILDCARD])),
    ]


def _acls(resources: Iterable[Resource], sides: Iterable[Side], operations: Iterable[Operation]) -> Iterator[Acl]:
    for resource, (principal, host, permission), operation in product(resources, sides, operations):
        yield Acl(*resource, principal, host, operation, permission)


def _operations(named: list[str] | None, producer: bool, consumer: bool) -> list[Operation]:
    """Parse `Read`, `read` and `READ`, `AlterConfigs` and `ALTER_CONFIGS`. Raises INVALID_REQUEST."""
    known = {operation.name.replace("_", ""): operation for operation in Operation if operation is not Operation.ANY}
    wanted = [*(PRODUCER if producer else ()), *(CONSUMER if consumer else ())]
    for name in named or ():
        operation = known.get(name.upper().replace("_", ""))
        check(operation, f"--operation {name!r} is none of {', '.join(each.name for each in known.values())}")
        assert operation is not None
        wanted.append(operation)
    return list(dict.fromkeys(wanted))


def client_quota(
    bootstrap: BootstrapServer = None,
    controller: BootstrapController = None,
    user: Annotated[str, typer.Option(metavar="User:NAME", help="Default: each user without a quota of its own.")] = "",
    config: Configs = None,
    delete_config: DeleteConfigs = None,
    output: OutputFormat = Format.TABLE,
) -> None:
    """Change, or list, what users may take of each broker.

    They are `producer_byte_rate` and `consumer_byte_rate`, in bytes per second. All connections of a user share them;
    a user who has had too much waits.

    Example: `replog client-quota --user User:ann --config producer_byte_rate=1000000`"""
    configs = name_values(config or [], "--config")
    if configs or delete_config:
        altered: dict[str, str] = ask(
            bootstrap, lambda admin: admin.alter_client_quotas(user, configs, delete_config or []), controller
        )
        note(f"{user or 'each user without a quota of its own'} has {settings_line(altered)}")
        return
    quotas: dict[str, dict[str, str]] = ask(bootstrap, lambda admin: admin.describe_client_quotas(), controller)
    rows = [{"user": name, "quota": settings_line(quota)} for name, quota in quotas.items() if user in ("", name)]
    print_rows(rows, ("user", "quota"), output)
