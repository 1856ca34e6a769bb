"""Clusters for foreign clients: three brokers, unless a judge wants it otherwise."""

from collections.abc import Mapping
from pathlib import Path

from replog.local_cluster.local_cluster import LocalCluster

REPLICAS = 3


def foreign_cluster(
    directory: Path,
    brokers: int = REPLICAS,
    *,
    partitions: int = 1,
    controller: Mapping[str, str] | None = None,
    **broker: str,
) -> LocalCluster:
    """Return a cluster that is not up yet. `partitions`: of topics that clients make without a number, or by asking
    for them. `controller`: more settings of its controller; the others are the brokers', with `_` for `.`."""
    properties = directory / "controller" / "controller.properties"
    properties.parent.mkdir(parents=True, exist_ok=True)
    settings = {"num.partitions": str(partitions), **(controller or {})}
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    own = {name.replace("_", "."): value for name, value in broker.items()}
    return LocalCluster(directory, brokers, own)
