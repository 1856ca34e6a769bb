"""`replog client-quota`."""

from typing import Annotated

import typer

from replog.cli.asking import ask
from replog.cli.options import (
    BootstrapController,
    BootstrapServer,
    Configs,
    DeleteConfigs,
    OutputFormat,
    name_values,
    settings_line,
)
from replog.command.output import Format, note, print_rows


def client_quota(
    bootstrap: BootstrapServer = None,
    controller: BootstrapController = None,
    user: Annotated[
        str, typer.Option("--user", metavar="User:NAME", help="Default: each user without a quota of its own.")
    ] = "",
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
