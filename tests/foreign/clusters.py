"""Clusters for foreign clients: three brokers, unless a judge wants it otherwise."""

from collections.abc import Mapping
from pathlib import Path

from replog.local_cluster.local_cluster import LocalCluster

REPLICAS = 3
_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def foreign_cluster(
    directory: Path,
    brokers: int = REPLICAS,
    *,
    partitions: int = 1,
    guarded: bool = False,
    settings: Mapping[str, str] | None = None,
) -> LocalCluster:
    """Return a cluster that is not up yet. `partitions`: how many a topic has for which a client names no number.
    `guarded`: it takes ACLs, and lets everybody do what none forbids. `settings` are every broker's."""
    properties = directory / "controller" / "controller.properties"
    properties.parent.mkdir(parents=True, exist_ok=True)
    guard = _AUTHORIZER if guarded else {}
    lines = {"num.partitions": str(partitions), **guard}
    properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return LocalCluster(directory, brokers, {**guard, **(settings or {})})
