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
    settings: Mapping[str, str] | None = None,
    controller: Mapping[str, str] | None = None,
) -> LocalCluster:
    """Return a cluster that is not up yet. `partitions`: how many a topic has for which a client names no number.
    `settings` are every broker's, `controller` its controller's."""
    properties = directory / "controller" / "controller.properties"
    properties.parent.mkdir(parents=True, exist_ok=True)
    lines = {"num.partitions": str(partitions), **(controller or {})}
    properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return LocalCluster(directory, brokers, settings)
