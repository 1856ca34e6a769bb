"""The first record of a new cluster's metadata store. Nothing else makes one, like Kafka's `kafka-storage format`."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from random import Random, SystemRandom

from replog.config.processes import ControllerConfig
from replog.controller.cluster_state import new_cluster_id
from replog.errors import ErrorCode
from replog.metadata.changes import Change
from replog.metadata.records import record_of
from replog.rpc.v1.metadata_pb2 import MetadataRecord
from replog.server.controller.etcd.client import EtcdClient, transport_to_etcd
from replog.server.controller.etcd.store import EtcdStore
from replog.server.controller.sqlite_store import DATABASE_NAME, SqliteStore, create_store

_LEGAL_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")


def is_formatted(directory: Path) -> bool:
    return (directory / DATABASE_NAME).exists()


async def format_etcd(config: ControllerConfig, cluster_id: str | None = None, moved: Path | None = None) -> str:
    """Make the store of a new cluster in etcd, or of the cluster whose SQLite store is in the directory `moved`.

    Returns the cluster's id. Raises as `format_cluster`, `SqliteStore` and `EtcdStore.load`."""
    if moved is None:
        cluster_id, records = first_records(cluster_id, SystemRandom())
    else:
        with closing(SqliteStore(moved)) as store:
            records = store.load()
        cluster_id = next(record.cluster.cluster_id for record in records if record.HasField("cluster"))
    async with store_in_etcd(config) as store:
        await store.create(records)
    return cluster_id


@asynccontextmanager
async def store_in_etcd(config: ControllerConfig) -> AsyncIterator[EtcdStore]:
    """Yields a store to be read, or made. To commit, a controller must lead."""
    etcd = EtcdClient(transport_to_etcd(config), config.metadata_etcd_endpoints.split(","))
    try:
        yield EtcdStore(etcd, config.metadata_etcd_prefix, SystemRandom())
    finally:
        await etcd.close()


def format_cluster(directory: Path, cluster_id: str | None = None, rng: Random | None = None) -> str:
    """Make the store of a new cluster, and return its id.

    Raises INVALID_REQUEST for a wrong id; KAFKA_STORAGE_ERROR if there is a store, or none can be made."""
    cluster_id, records = first_records(cluster_id, rng or SystemRandom())
    create_store(directory, records)
    return cluster_id


def first_records(cluster_id: str | None, rng: Random) -> tuple[str, list[MetadataRecord]]:
    """Return a new cluster's id, by default a random one, and its first records. Raises INVALID_REQUEST."""
    cluster_id = cluster_id or new_cluster_id(rng)
    if not _LEGAL_ID.fullmatch(cluster_id):
        raise ErrorCode.INVALID_REQUEST.error(
            f"cluster id {cluster_id[:80]!r}: choose 1 to 64 letters, digits, '_' and '-', no '-' first"
        )
    return cluster_id, [record_of(Change("cluster", None, cluster_id, version=1))]
