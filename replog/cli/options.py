"""Options that several commands share."""

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from replog.command.home import user_directory
from replog.command.output import Format
from replog.config.properties import MAX_INT, load_settings, put_setting
from replog.errors import ErrorCode, ReplogError


def default_directory() -> Path:
    """Return the local cluster's directory: $REPLOG_CLUSTER_DIRECTORY, else below the user's data directory.

    Raises INVALID_CONFIG for a user without a home directory."""
    if chosen := os.environ.get("REPLOG_CLUSTER_DIRECTORY"):
        return Path(chosen)
    try:
        return user_directory("XDG_DATA_HOME", ".local/share") / "replog" / "cluster"
    except ReplogError as error:
        others = "or name brokers with --bootstrap-server, or a local cluster with REPLOG_CLUSTER_DIRECTORY"
        raise ReplogError(error.code, f"{error.message}, {others}") from None


def bootstrap_server(given: str | None) -> str:
    """Return the brokers to ask: those given, else the local cluster's.

    Raises INVALID_CONFIG if there are neither, BROKER_NOT_AVAILABLE if the local cluster is stopped."""
    if given is not None:
        return given
    from replog.local_cluster.cluster_file import CLIENT_FILE, TLS_DIRECTORY, ClusterFile
    from replog.local_cluster.ports import HOST
    from replog.local_cluster.processes import ProcessState

    directory = default_directory()
    state = ClusterFile.load(directory)
    if state is None:
        raise ErrorCode.INVALID_CONFIG.error(
            f"no broker is named and there is no local cluster in {directory}; use --bootstrap-server HOST:PORT, set "
            "REPLOG_BOOTSTRAP_SERVER, or start a cluster: replog cluster up"
        )
    if all(broker.state is ProcessState.STOPPED for broker in state.brokers):
        raise ErrorCode.BROKER_NOT_AVAILABLE.error(
            f"no broker of the local cluster in {directory} runs; start it: replog cluster up --directory {directory}; "
            f"or ask its controller: --bootstrap-controller {HOST}:{state.controller.port}"
        )
    certificate = directory / TLS_DIRECTORY / CLIENT_FILE
    if certificate.exists():
        os.environ.setdefault("REPLOG_CLIENT_CONFIG", str(certificate))  # processes that it starts need it, too
    return state.bootstrap


def forget_locally(bootstrap: str | None, broker_id: int) -> None:
    """Have `cluster up` start the broker no more, if it is one of the local cluster, and that was asked."""
    from replog.local_cluster.cluster_file import ClusterFile
    from replog.local_cluster.local_cluster import LocalCluster

    state = None
    with suppress(ReplogError):  # there is no home directory, and so no local cluster
        state = ClusterFile.load(directory := default_directory())
    if state is None or broker_id not in [broker.node_id for broker in state.brokers]:
        return
    if bootstrap is None or set(state.bootstrap.split(",")) & set(bootstrap.split(",")):
        LocalCluster(directory).forget(broker_id)


def check(sound: object, remedy: str) -> None:
    """Raises INVALID_REQUEST, which says what to give, unless the options are `sound`."""
    if not sound:
        raise ErrorCode.INVALID_REQUEST.error(remedy)


def name_values(settings: list[str], option: str) -> dict[str, str]:
    """Parse `NAME=VALUE` arguments. Raises INVALID_CONFIG."""
    parsed: dict[str, str] = {}
    for setting in settings:
        put_setting(parsed, setting, option)
    return parsed


def settings(config: Path | None, overrides: list[str] | None) -> dict[str, str]:
    """Return the file's settings, and those of the command line over them. Raises INVALID_CONFIG."""
    return {**(load_settings(config) if config else {}), **name_values(overrides or [], "--override")}


def settings_line(configs: Mapping[str, str]) -> str:
    """Format settings as a user gives them, sorted by name."""
    return " ".join(f"{name}={value}" for name, value in sorted(configs.items())) or "no settings of its own"


number = partial(typer.Option, min=0, max=MAX_INT)  # an id, a partition or a count
seconds = partial(typer.Option, metavar="SECONDS", min=0.0, max=MAX_INT)

BootstrapServer = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        envvar="REPLOG_BOOTSTRAP_SERVER",
        show_envvar=False,  # it would be cut off at 80 columns; `replog --help` has it
        metavar="HOST:PORT,…",
        help="Brokers to ask first; default: the environment's, else the local cluster's.",
    ),
]
BootstrapController = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-controller",
        metavar="HOST:PORT",
        help="Ask the controller that decides, as when no broker runs; nobody waits for brokers then.",
    ),
]
Configs = Annotated[
    list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A setting; may be repeated.")
]
DeleteConfigs = Annotated[
    list[str] | None,
    typer.Option("--delete-config", metavar="NAME", help="Put a setting back to its default; may be repeated."),
]
ClusterDirectory = Annotated[
    Path,
    typer.Option(
        "--directory",
        "-d",
        default_factory=default_directory,
        show_default="$REPLOG_CLUSTER_DIRECTORY or ~/.local/share/replog/cluster",
        help="The cluster's directory: state, settings, data and logs.",
    ),
]
OutputFormat = Annotated[Format, typer.Option("--format", help="How to print.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings, one `name=value` a line, Kafka's names.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--override", metavar="NAME=VALUE", help="One setting, over the file's; may be repeated."),
]
