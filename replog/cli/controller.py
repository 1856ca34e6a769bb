"""`replog controller`: the controller in the foreground; and its store: made, copied and restored."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replog.cli.options import ConfigFile, Overrides, settings
from replog.command.app import App
from replog.command.output import note
from replog.config.properties import MAX_INT, number_in
from replog.errors import ErrorCode, ReplogError

if TYPE_CHECKING:
    from replog.config.processes import ControllerConfig
    from replog.rpc.v1.metadata_pb2 import MetadataRecord

app = App(no_args_is_help=False)


def _parsed(config: ConfigFile, override: Overrides) -> "ControllerConfig":
    from replog.config.processes import ControllerConfig

    return ControllerConfig.parse(settings(config, override), str(config or "--override"))


@app.callback(invoke_without_command=True)
def controller(context: typer.Context, config: ConfigFile = None, override: Overrides = None) -> None:
    """Run the controller in the foreground until SIGTERM or SIGINT, or look after its store.

    Needs `metadata.log.dir`, where `replog controller format` has made a metadata store; or `metadata.store=etcd` and
    `metadata.etcd.endpoints`, where other controllers may run, too.

    After SIGHUP it goes by `log.level` and `log.format` as the file has them then, and by certificates that are new.

    Example: `replog controller --override metadata.log.dir=/var/lib/replog-controller
    --override listeners=127.0.0.1:9093`"""
    if context.invoked_subcommand is not None:
        if config or override:
            raise ErrorCode.INVALID_CONFIG.error(f"say --config after {context.invoked_subcommand}")
        return
    from replog.server import logging
    from replog.server.controller.process import main

    parsed = _parsed(config, override)
    with logging.starting(parsed) as started:
        main(parsed, lambda: _parsed(config, override), started)


@app.command("format")
def format_store(
    config: ConfigFile = None,
    override: Overrides = None,
    cluster_id: Annotated[
        str | None, typer.Option(metavar="ID", help="A new cluster's id; else its certificate's, or a random one.")
    ] = None,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", help="Leave a store that is there as it is, and exit with 0.")
    ] = False,
    moved: Annotated[
        Path | None,
        typer.Option(
            "--move-from",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="Into etcd: the metadata.log.dir of a controller on SQLite.",
        ),
    ] = None,
) -> None:
    """Make the metadata store of a new cluster, in `metadata.log.dir` or in etcd: once, before the first start.

    Prints the cluster id. It never changes a store that is there. With `--move-from` etcd gets the metadata of a
    controller that is stopped, and is not to be started on SQLite again.

    Example: `replog controller format --override metadata.log.dir=/var/lib/replog-controller`"""
    import asyncio

    from replog.server.controller.formatting import format_cluster, format_etcd, is_formatted

    parsed = _parsed(config, override)
    if parsed.security_protocol == "SSL" and moved is None:
        cluster_id = _id_of_certificate(parsed, cluster_id)
    if parsed.metadata_store == "etcd":
        where = f"{parsed.metadata_etcd_prefix} of the etcd at {parsed.metadata_etcd_endpoints}"
        try:
            print(asyncio.run(format_etcd(parsed, cluster_id, moved)))
            note(f"made the metadata store of a new cluster in {where}")
        except ReplogError as error:
            if not ignore_formatted or "already" not in error.message:
                raise
            note(f"{where} is formatted already")
        return
    if moved is not None:
        raise ErrorCode.INVALID_REQUEST.error("--move-from is for metadata.store=etcd")
    directory = parsed.metadata_log_dir
    if ignore_formatted and is_formatted(directory):
        note(f"{directory} is formatted already")
        return
    print(format_cluster(directory, cluster_id))
    note(f"made the metadata store of a new cluster in {directory}")


def _id_of_certificate(config: "ControllerConfig", wanted: str | None) -> str:
    """Return the cluster id in the certificate. Raises INCONSISTENT_CLUSTER_ID if another one is wanted."""
    from replog.rpc.peer import Role
    from replog.rpc.transports import server_tls

    tls = server_tls(config, (config.bound,), Role.CONTROLLER)
    assert tls is not None, "it speaks TLS"
    identity = tls.material.identity
    assert identity is not None, "a server has a certificate"
    tls.check_cluster(wanted or identity.cluster_id)
    return identity.cluster_id


Replicas = Annotated[
    list[str],
    typer.Option(
        "--replica",
        metavar="ID=PATH",
        help="A log directory of broker ID, which is stopped, or what `replog log survey` printed of it; for each of "
        "them all.",
    ),
]


DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print what cannot be known or is lost.")]


@app.command()
def backup(
    config: ConfigFile = None,
    override: Overrides = None,
    to: Annotated[
        Path, typer.Option(metavar="DIR", file_okay=False, writable=True, help="Where the copy goes.")
    ] = Path(),
) -> None:
    """Copy the metadata store as it is at one moment, also while the controller runs; prints the file.

    Its name has the cluster id and the version. The copy is read back before it gets that name. Run it on the host of
    the store, as the user of the controller; with `metadata.store=etcd` anywhere, with a controller's settings.

    Example: `replog controller backup --config /etc/replog/controller.properties --to /var/backups`"""
    import asyncio

    from replog.server.controller.formatting import store_in_etcd
    from replog.server.controller.restoring import back_up, read_store

    parsed = _parsed(config, override)

    async def read_etcd() -> "list[MetadataRecord]":
        async with store_in_etcd(parsed) as store:
            return await store.load()

    in_etcd = parsed.metadata_store == "etcd"
    path, image = back_up(asyncio.run(read_etcd()) if in_etcd else read_store(parsed.metadata_log_dir), to)
    print(path)
    note(f"cluster {image.cluster_id}, version {image.version}: topics {len(image.topics)}")


@app.command()
def restore(
    replica: Replicas,
    from_older_copy: Annotated[Path, typer.Option(metavar="FILE", help="The newest copy of the store that there is.")],
    config: ConfigFile = None,
    override: Overrides = None,
    without: Annotated[
        list[int] | None,
        typer.Option("--without-broker", metavar="ID", max=MAX_INT, help="A broker of the copy whose disks are lost."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Make the metadata store from an older copy and from the log directories of all brokers.

    A copy does not know which replicas have what was acknowledged since. The log directories do: the replicas whose
    last record has the highest leader epoch, and of those the longest, lead first. Name every log directory of every
    broker; what a missing one alone had is lost, and is listed. A broker of the copy without any is refused, unless you
    give it up. The brokers and the controllers are stopped, and nothing but the store is written. With
    `metadata.store=etcd` it is made in etcd.

    Example: `replog controller restore --config controller.properties --from-older-copy older.sqlite
    --replica 1=/data/1 --replica 2=/data/2 --replica 3=/data/3`"""
    _restored(_parsed(config, override), replica, dry_run, from_older_copy, without or ())


@app.command()
def rebuild(replica: Replicas, config: ConfigFile = None, override: Overrides = None, dry_run: DryRun = False) -> None:
    """Make the metadata store from the log directories of all brokers, where no copy of it is left.

    Like `restore`, but the settings of topics and brokers, ACLs, and topics without any replica are lost. What cannot
    be known is listed.

    Example: `replog controller rebuild --config controller.properties --replica 1=/data/1 --replica 2=/data/2`"""
    _restored(_parsed(config, override), replica, dry_run)


def _restored(
    config: "ControllerConfig",
    replicas: list[str],
    dry_run: bool,
    copy: Path | None = None,
    without: Collection[int] = (),
) -> None:
    import asyncio
    import time
    from random import SystemRandom

    from replog.server.controller.formatting import store_in_etcd
    from replog.server.controller.restoring import restored_store
    from replog.server.controller.sqlite_store import create_store

    paths: dict[int, list[Path]] = {}
    for each in replicas:
        broker_id, equals, path = each.partition("=")
        if not equals or not path or (number := number_in(broker_id, MAX_INT)) is None:
            raise ErrorCode.INVALID_REQUEST.error(f"--replica {each[:100]!r} is not ID=PATH")
        paths.setdefault(number, []).append(Path(path))
    if config.unclean_leader_election_enable:
        raise ErrorCode.INVALID_CONFIG.error(
            "unclean.leader.election.enable=true would let the first broker that starts lead, whatever it lacks; set "
            "it to false, and to true again when all brokers are in sync"
        )
    outcome = restored_store(paths, SystemRandom(), time.time_ns() // 1_000_000, copy, frozenset(without))
    for remark in outcome.remarks:
        print(remark)
    told = (
        f"cluster {outcome.image.cluster_id}, topics {len(outcome.image.topics)}, "
        f"partitions {len(outcome.image.partitions)}, remarks {len(outcome.remarks)}"
    )
    if dry_run:
        note(f"nothing is made: {told}")
        return

    async def make_in_etcd() -> None:
        async with store_in_etcd(config) as store:
            await store.create(outcome.records)

    if config.metadata_store == "etcd":
        asyncio.run(make_in_etcd())
    else:
        create_store(config.metadata_log_dir, outcome.records)
    note(f"made the metadata store: {told}; start the controller, then the brokers")
