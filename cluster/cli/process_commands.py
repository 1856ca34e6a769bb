"""`replog broker` and `replog controller`: one process in the foreground."""

from pathlib import Path
from typing import Annotated

import typer

from cluster.cli.options import name_values

ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings, one `name=value` a line, Kafka's names.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--override", metavar="NAME=VALUE", help="One setting, over the file's; may be repeated."),
]


def settings(config: Path | None, overrides: list[str] | None) -> dict[str, str]:
    from replog.properties import load_properties

    return {**(load_properties(config) if config else {}), **name_values(overrides or [], "--override")}


def broker(config: ConfigFile = None, override: Overrides = None) -> None:
    """Run one broker in the foreground until SIGTERM or SIGINT, which stop it cleanly.

    Needs `node.id` and `log.dirs`; the others have defaults. Logs go to stderr: JSON lines, or colours on a terminal.

    Example: `replog broker --override node.id=1 --override log.dirs=/var/lib/replog
    --override listeners=127.0.0.1:9092 --override controller.listener=127.0.0.1:9093`
    """
    from cluster import logging
    from cluster.broker.process import main
    from replog.config import BrokerConfig

    parsed = BrokerConfig.parse(settings(config, override), str(config or "--override"))
    logging.configure()
    raise typer.Exit(main(parsed))


def controller(config: ConfigFile = None, override: Overrides = None) -> None:
    """Run the controller in the foreground until SIGTERM or SIGINT.

    Needs `metadata.log.dir`, where its metadata store is.

    Example: `replog controller --override metadata.log.dir=/var/lib/replog-controller
    --override listeners=127.0.0.1:9093`
    """
    from cluster import logging
    from cluster.controller.process import main
    from replog.config import ControllerConfig

    parsed = ControllerConfig.parse(settings(config, override), str(config or "--override"))
    logging.configure()
    raise typer.Exit(main(parsed))
