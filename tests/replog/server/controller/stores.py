"""Metadata stores of each kind for the tests, which open the same one again and again."""

import itertools
import random
from contextlib import asynccontextmanager
from unittest.mock import patch

from replog.metadata.changes import Change
from replog.metadata.image import History
from replog.metadata.records import record_of
from replog.metadata.values import BrokerRegistration
from replog.rpc import methods
from replog.rpc.transports import H2Transport
from replog.rpc.v1 import etcd_pb2
from replog.rpc.v1.metadata_pb2 import MetadataRecord
from replog.server.clock import SystemClock
from replog.server.controller.etcd.client import EtcdClient, Keys, delete, put
from replog.server.controller.etcd.store import EtcdStore
from replog.server.controller.sqlite_store import SqliteStore, StoreInThread, create_store
from replog.simulator.etcd import EtcdService, EtcdState

_prefixes = itertools.count()


def records(*values, after=0):
    """A record of each value: an int is a broker, a str of the form -key is a tombstone, another the cluster."""
    return [record(value, version) for version, value in enumerate(values, after + 1)]


def named(*keys, after=0):
    """Records of these keys, without values."""
    return [MetadataRecord(key=key, version=version) for version, key in enumerate(keys, after + 1)]


def record(value, version):
    if isinstance(value, int):
        broker = BrokerRegistration(value, value, b"i" * 16, f"h{value}:1", "", True, False)
        return record_of(Change("broker", value, broker, version=version))
    if value.startswith("-"):
        return MetadataRecord(key=value[1:], version=version)
    return record_of(Change("cluster", None, value, version=version))


def lineage(history_id, version):
    """The record of a history that begins there."""
    return record_of(Change("lineage", None, (History(history_id, version),), version=version))


class SqliteStores:
    def __init__(self, directory):
        self._directory = directory
        self._open = None

    async def create(self, made):
        create_store(self._directory, made)

    async def opened(self):
        """One at a time."""
        await self.close()
        self._open = StoreInThread(SqliteStore(self._directory))
        return self._open

    async def close(self):
        if self._open is not None:
            await self._open.close()
            self._open = None


class EtcdStores:
    """Each store that is opened leads from then on."""

    def __init__(self, client):
        self.client = client
        self.prefix = f"/test-{next(_prefixes)}/"
        self.keys = Keys(self.prefix)

    def store(self, **options):
        return EtcdStore(self.client, self.prefix, random.Random(1), **options)

    async def create(self, made):
        await self.store().create(made)

    async def elect(self, store):
        for operation in (delete(self.keys.leader, self.keys.leader + b"\0"), put(self.keys.leader, b"a test's")):
            answer = await self.client.call(methods.EtcdKV["txn"], etcd_pb2.TxnRequest(success=[operation]))
        store.epoch = answer.header.revision

    async def opened(self, **options):
        store = self.store(**options)
        await self.elect(store)
        await store.load()
        return store

    async def stored(self):
        """What is in etcd, by key below the prefix."""
        first = self.prefix.encode()
        request = etcd_pb2.RangeRequest(key=first, range_end=first[:-1] + b"0")
        answer = await self.client.call(methods.EtcdKV["range"], request)
        return {found.key[len(first) :].decode(): found.value for found in answer.kvs}

    async def put_back(self, stored):
        """As a snapshot of etcd does."""
        first = self.prefix.encode()
        operations = [delete(first, first[:-1] + b"0")]
        for operation in (*operations, *(put(first + name.encode(), value) for name, value in stored.items())):
            await self.client.call(methods.EtcdKV["txn"], etcd_pb2.TxnRequest(success=[operation]))


@asynccontextmanager
async def etcd_stores(address):
    """Of a client that is patient: on a busy machine an etcd may take more than a second."""
    client = EtcdClient(H2Transport(), [address])
    try:
        with patch("replog.server.controller.etcd.client.ATTEMPT_S", 60.0):
            yield EtcdStores(client)
    finally:
        await client.close()


@asynccontextmanager
async def simulated_etcd(state=None):
    """The address of the simulator's etcd, over a real network."""
    server = H2Transport().listen("127.0.0.1:0")
    service = EtcdService(state or EtcdState(), SystemClock())
    server.add(methods.ETCD_KV, service)
    server.add(methods.ETCD_LEASE, service)
    try:
        yield await server.start()
    finally:
        await server.stop(0)
