"""Elections over one etcd, the simulator's: to whom callers are sent by who does not decide; and the way to a real
etcd, with TLS and without."""

import asyncio

import pytest

from replog.config.processes import ControllerConfig
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster import authority
from replog.rpc import methods
from replog.rpc.peer import Role
from replog.rpc.transports import H2Transport
from replog.rpc.v1 import etcd_pb2
from replog.server.clock import SystemClock
from replog.server.controller.etcd import client as client_module
from replog.server.controller.etcd.client import EtcdClient, transport_to_etcd
from replog.server.controller.etcd.election import Election, Leadership
from replog.server.controller.formatting import format_etcd
from tests.replog.server.controller.etcds import Etcds, etcd_or_skip
from tests.replog.server.controller.stores import simulated_etcd


async def test_who_is_not_elected_names_who_is_and_who_is_cut_off_from_etcd_nobody():
    """Nobody names itself by the key of an earlier term, nor whom it heard of last: another one may decide by now."""
    async with simulated_etcd() as address:
        first, second = elections = [
            Election(EtcdClient(H2Transport(), [address]), "/", name, 5, SystemClock())
            for name in ("first:1", "second:1")
        ]
        assert [await election.stand() for election in elections] == [True, False]
        assert second.leader == "first:1"
        assert not await first.stand()
        assert first.leader == ""
    for election in elections:
        with pytest.raises(ReplogError):
            await election.stand()
        assert election.leader == ""
        await election.close()


def test_nobody_leads_unelected():
    leadership = Leadership()
    leadership.renewed(1000, 5000)
    assert leadership.left_ms(1001) == 0


def test_a_belief_ends_before_the_lease_that_was_asked_for_then_can_end():
    leadership = Leadership()
    leadership.elected(7, asked_ms=1000, lease_ms=5000)
    assert leadership.epoch == 7
    assert leadership.left_ms(1000) == 4500, "a tenth less: clocks differ"
    assert leadership.left_ms(5499) == 1
    assert leadership.left_ms(5500) == 0


def test_a_renewal_counts_from_when_it_was_asked_for_and_never_shortens():
    leadership = Leadership()
    leadership.elected(7, asked_ms=1000, lease_ms=5000)
    leadership.renewed(2000, 5000)
    assert leadership.left_ms(2500) == 4000
    leadership.renewed(1500, 5000)
    assert leadership.left_ms(2500) == 4000, "an answer that came late"


def test_who_has_resigned_does_not_lead_by_a_late_answer():
    leadership = Leadership()
    leadership.elected(7, asked_ms=1000, lease_ms=5000)
    leadership.end()
    leadership.renewed(2000, 5000)
    assert leadership.left_ms(2001) == 0


def test_a_renewal_is_due_long_before_the_end():
    leadership = Leadership()
    leadership.elected(7, asked_ms=0, lease_ms=6000)
    assert leadership.renew_ms == 2000


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
