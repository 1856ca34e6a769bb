"""`replog broker-config`."""

from typing import Annotated, Any

import typer

from cluster.cli.asking import ask
from cluster.cli.options import BootstrapServer, Configs, DeleteConfigs, name_values, settings_line
from cluster.cli.output import note


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
    from replog.errors import ErrorCode, ReplogError

    configs = name_values(config or [], "--config")

    async def alter(admin: Any) -> dict[str, str]:
        if configs or delete_config:
            altered: dict[str, str] = await admin.alter_broker_configs(broker, configs, delete_config or [])
            return altered
        known = {found.broker_id: dict(found.configs) for found in (await admin.describe_cluster()).brokers}
        if broker not in known:
            raise ReplogError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker} is not registered")
        return known[broker]

    note(f"broker {broker} has {settings_line(ask(bootstrap, alter))}")
