"""The way to a real etcd, with TLS and without."""

import asyncio

import pytest

from replog.config.processes import ControllerConfig
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster import authority
from replog.rpc import methods
from replog.rpc.peer import Role
from replog.rpc.v1 import etcd_pb2
from replog.server.controller.etcd import client as client_module
from replog.server.controller.etcd.client import EtcdClient, transport_to_etcd
from replog.server.controller.formatting import format_etcd
from tests.replog.server.controller.etcds import Etcds, etcd_or_skip


def config(endpoints, **settings):
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return ControllerConfig.parse({"metadata.store": "etcd", "metadata.etcd.endpoints": endpoints, **named}, "test")


@pytest.fixture
def certificates(tmp_path):
    """Of a controller, an etcd and their authority."""
    authority.init(tmp_path, "c1")
    for name in ("a", "etcd"):
        authority.issue(tmp_path, Role.CONTROLLER, name)
    return tmp_path / "controller-a.pem", tmp_path / "controller-etcd.pem", tmp_path / "ca.pem"


async def test_an_etcd_takes_nobody_without_a_certificate_of_its_authority(certificates, tmp_path, monkeypatch):
    monkeypatch.setattr(client_module, "ATTEMPT_S", 60.0)  # on a busy machine one second may be too little
    own, etcds_own, root = certificates
    etcds = Etcds(etcd_or_skip(), tmp_path, tls=(etcds_own, root))
    try:
        await asyncio.to_thread(etcds.start)
        (endpoint,) = etcds.endpoints
        ssl = {"metadata_etcd_ssl_keystore_location": own, "metadata_etcd_ssl_truststore_location": root}
        assert await format_etcd(config(endpoint, **ssl), "c1") == "c1"
        plain = EtcdClient(transport_to_etcd(config(endpoint)), [endpoint])
        with pytest.raises(ReplogError, match="if it asks for TLS"):
            await plain.call(methods.EtcdKV["range"], etcd_pb2.RangeRequest(key=b"x"))
        await plain.close()
    finally:
        etcds.stop()


def test_metadata_are_not_sent_about_in_plaintext_unless_somebody_says_so(refused):
    with refused(ErrorCode.INVALID_CONFIG, "metadata.etcd.ssl.truststore.location", "10.0.0.1:2379"):
        transport_to_etcd(config("127.0.0.1:2379,10.0.0.1:2379"))
    transport_to_etcd(config("10.0.0.1:2379", allow_plaintext="true"))


async def test_the_next_etcd_is_asked_when_one_does_not_answer_and_stays_the_first_to_be_asked(etcd, monkeypatch):
    monkeypatch.setattr(client_module, "ATTEMPT_S", 60.0)  # on a busy machine one second may be too little
    client = EtcdClient(transport_to_etcd(config("127.0.0.1:1")), ["127.0.0.1:1", etcd])
    request = etcd_pb2.RangeRequest(key=b"x")
    assert (await client.call(methods.EtcdKV["range"], request)).header.revision > 0
    assert client._at == 1
    lease = await client.call(methods.EtcdLease["lease_grant"], etcd_pb2.LeaseGrantRequest(TTL=60))
    kept = etcd_pb2.LeaseKeepAliveRequest(ID=lease.ID)
    assert (await client.call_on_stream(methods.EtcdLease["lease_keep_alive"], kept)).TTL == 60
    await client.close()


async def test_when_no_etcd_answers_nobody_knows(refused):
    client = EtcdClient(transport_to_etcd(config("127.0.0.1:1")), ["127.0.0.1:1", "127.0.0.1:2"])
    with refused(ErrorCode.NETWORK_EXCEPTION):
        await client.call(methods.EtcdKV["range"], etcd_pb2.RangeRequest(key=b"x"))
    await client.close()
