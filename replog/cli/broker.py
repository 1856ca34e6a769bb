"""`replog broker`, `replog controller`: one process in the foreground; and `replog broker-config`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from replog.cli.asking import ask
from replog.cli.options import BootstrapServer, Configs, DeleteConfigs, name_values, settings_line
from replog.command.output import note
from replog.errors import ErrorCode, ReplogError
from replog.properties import load_properties

ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings, one `name=value` a line, Kafka's names.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--override", metavar="NAME=VALUE", help="One setting, over the file's; may be repeated."),
]


def settings(config: Path | None, overrides: list[str] | None) -> dict[str, str]:

    return {**(load_properties(config) if config else {}), **name_values(overrides or [], "--override")}


def broker(config: ConfigFile = None, override: Overrides = None) -> None:
    """Run one broker in the foreground until SIGTERM or SIGINT, which stop it cleanly.

    Needs `node.id` and `log.dirs`; the others have defaults. Logs go to stderr: JSON lines, or colours on a terminal.

    Example: `replog broker --override node.id=1 --override log.dirs=/var/lib/replog
    --override listeners=127.0.0.1:9092 --override controller.listener=127.0.0.1:9093`
    """
    from replog.config import BrokerConfig
    from replog.server import logging
    from replog.server.broker.process import main

    parsed = BrokerConfig.parse(settings(config, override), str(config or "--override"))
    logging.configure()
    raise typer.Exit(main(parsed))


def controller(config: ConfigFile = None, override: Overrides = None) -> None:
    """Run the controller in the foreground until SIGTERM or SIGINT.

    Needs `metadata.log.dir`, where its metadata store is.

    Example: `replog controller --override metadata.log.dir=/var/lib/replog-controller
    --override listeners=127.0.0.1:9093`
    """
    from replog.config import ControllerConfig
    from replog.server import logging
    from replog.server.controller.process import main

    parsed = ControllerConfig.parse(settings(config, override), str(config or "--override"))
    logging.configure()
    raise typer.Exit(main(parsed))


def broker_config(
    broker: Annotated[int, typer.Option(metavar="ID", min=0, help="The broker's id.")],
    bootstrap: BootstrapServer = None,
    config: Configs = None,
    delete_config: DeleteConfigs = None,
) -> None:
    """Change, or show, the settings of a broker that may change while it runs.

    They are `leader.replication.throttled.rate` and `follower.replication.throttled.rate`, in bytes per second. They
    hold at once and after a restart too; a deleted one is again as the broker was started with.

    Example: `replog broker-config --broker 2 --config follower.replication.throttled.rate=1000000`
    """

    configs = name_values(config or [], "--config")

    async def alter(admin: Any) -> dict[str, str]:
        if configs or delete_config:
            altered: dict[str, str] = await admin.alter_broker_configs(broker, configs, delete_config or [])
            return altered
        known = {each.broker_id: dict(each.configs) for each in (await admin.describe_cluster()).brokers}
        if broker not in known:
            raise ReplogError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker} is not registered")
        return known[broker]

    note(f"broker {broker} has {settings_line(ask(bootstrap, alter))}")
