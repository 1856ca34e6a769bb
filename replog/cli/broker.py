"""`replog broker`: one broker in the foreground, or one that leaves; and `replog broker-config`."""

from typing import Annotated, Any

import typer

from replog.cli.asking import ask
from replog.cli.options import (
    BootstrapController,
    BootstrapServer,
    ConfigFile,
    Configs,
    DeleteConfigs,
    Overrides,
    forget_locally,
    name_values,
    number,
    seconds,
    settings,
    settings_line,
)
from replog.command.app import App
from replog.command.output import note
from replog.config.properties import MAX_INT, MAX_LONG
from replog.errors import ErrorCode

app = App(no_args_is_help=False)
BrokerId = Annotated[int, typer.Argument(metavar="ID", min=0, max=MAX_INT, help="The broker's id.")]


@app.callback(invoke_without_command=True)
def broker(context: typer.Context, config: ConfigFile = None, override: Overrides = None) -> None:
    """Run one broker in the foreground until SIGTERM or SIGINT, which stop it cleanly; or forget one.

    Needs `node.id` and `log.dirs`; the others have defaults. Logs go to stderr: JSON lines, or colours on a terminal.
    After SIGHUP it goes by `log.level` and `log.format` as the file has them then, and by certificates that are new.

    Example: `replog broker --override node.id=1 --override log.dirs=/var/lib/replog
    --override listeners=127.0.0.1:9092 --override controller.listener=127.0.0.1:9093`"""
    if context.invoked_subcommand is not None:
        if config or override:
            raise ErrorCode.INVALID_CONFIG.error(f"{context.invoked_subcommand} takes neither of its settings")
        return
    from replog.config.processes import BrokerConfig
    from replog.server import logging
    from replog.server.broker.process import main

    def read() -> BrokerConfig:
        return BrokerConfig.parse(settings(config, override), str(config or "--override"))

    parsed = read()
    with logging.starting(parsed) as started:
        status = main(parsed, read, started)
    raise typer.Exit(status)


@app.command()
def forget(broker: BrokerId, bootstrap: BootstrapServer = None) -> None:
    """Have the cluster forget a broker that will not come back: one that is stopped and has no replicas.

    `replog broker decommission` moves its replicas to other brokers first. Its id may be used again.

    Example: `replog broker forget 4`"""
    ask(bootstrap, lambda admin: admin.unregister_broker(broker))
    forget_locally(bootstrap, broker)
    note(f"broker {broker} is forgotten")


@app.command()
def decommission(
    broker: BrokerId,
    timeout: Annotated[float, seconds(help="How long to wait for the next step, such as a partition.")] = 600.0,
    throttle: Annotated[
        int | None,
        typer.Option(metavar="BYTES", min=1, max=MAX_LONG, help="Copy at most so many bytes a second to a broker."),
    ] = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Have it stay instead: it gets new replicas, and no more move away.")
    ] = False,
    bootstrap: BootstrapServer = None,
) -> None:
    """Take a broker out of the cluster for good, alive or dead: move its replicas away, wait, and forget it.

    It gets no new replicas from then on; each of its replicas is copied to another broker, into a rack that the
    partition does not use if there is one; twenty partitions move at a time. When it has none left, stop its process:
    the command waits for that, and then the cluster forgets it.

    Ctrl-C is safe at any time, and the same command goes on from there; what moves to a broker that has died since goes
    to another one. `--cancel` takes it back: the broker gets new replicas again, all moves away from it are cancelled,
    and with them their throttle; what has moved stays where it is. With `replog partition reassign --from-broker 4
    --generate` you see beforehand where everything would go.

    Example: `replog broker decommission 4`"""
    from replog.cli import moves

    if cancel:
        cancelled = ask(bootstrap, lambda admin: moves.stay(admin, broker))
        note(f"broker {broker} stays and gets new replicas; {cancelled} moves away from it are cancelled")
        return
    ask(bootstrap, lambda admin: moves.decommission(admin, broker, timeout, note, throttle or 0))
    forget_locally(bootstrap, broker)
    note(f"broker {broker} has left the cluster")


def broker_config(
    broker: Annotated[int, number(metavar="ID", help="The broker's id.")],
    bootstrap: BootstrapServer = None,
    controller: BootstrapController = None,
    config: Configs = None,
    delete_config: DeleteConfigs = None,
) -> None:
    """Change, or show, the settings of a broker that may change while it runs.

    They are `leader.replication.throttled.rate` and `follower.replication.throttled.rate`, in bytes per second, and
    `cordoned.log.dirs=*`, with which a broker gets no new replicas (KIP-1066). They hold at once and after a restart
    too; a deleted one is again as the broker was started with.

    Example: `replog broker-config --broker 2 --config follower.replication.throttled.rate=1000000`"""
    configs = name_values(config or [], "--config")

    async def alter(admin: Any) -> dict[str, str]:
        if configs or delete_config:
            altered: dict[str, str] = await admin.alter_broker_configs(broker, configs, delete_config or [])
            return altered
        known = {each.broker_id: dict(each.configs) for each in (await admin.describe_cluster()).brokers}
        if broker not in known:
            raise ErrorCode.BROKER_ID_NOT_REGISTERED.error(f"broker {broker} is not registered")
        return known[broker]

    note(f"broker {broker} has {settings_line(ask(bootstrap, alter, controller))}")
