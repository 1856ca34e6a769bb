"""`replog cluster up --secure`: real processes that know each other by certificates, and nobody else."""

import os
from pathlib import Path

import pytest

from replog.client import Admin, Consumer, Producer
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.local_cluster import LocalCluster
from replog.rpc.methods import Controller, Replica
from replog.rpc.transports import transport_named
from replog.topic import TopicPartition
from tests.replog.rpc.handlers import channel_to, error_of
from tests.replog.server.broker.conftest import eventually

pytestmark = pytest.mark.processes


async def test_a_secure_cluster_serves_those_who_show_a_certificate_and_no_other(tmp_path, monkeypatch):
    cluster = LocalCluster(tmp_path, secure=True)
    with cluster:
        transport = transport_named(tls=cluster.tls)
        async with (
            Admin(cluster.bootstrap, transport=transport) as admin,
            Producer(cluster.bootstrap, transport=transport) as producer,
            Consumer(cluster.bootstrap, transport=transport) as consumer,
        ):
            await admin.create_topic("t", partitions=1)
            for number in range(20):
                await (await producer.send("t", b"%d" % number))
            consumer.assign([TopicPartition("t", 0)])
            consumer.seek_to_beginning()
            read: list[bytes | None] = []
            while len(read) < 20:
                read += [record.value for record in await consumer.fetch()]
            assert read == [b"%d" % number for number in range(20)]
            cluster.wait_for_full_isr("t")
            cluster.kill(1)
            await (await producer.send("t", b"after a crash"))
            cluster.start(1)
            cluster.wait_for_full_isr("t")
        monkeypatch.delenv("REPLOG_CLIENT_CONFIG", raising=False)
        async with Admin(cluster.bootstrap, timeout_ms=3000) as stranger:
            error = await error_of(stranger.list_topics())
        assert error.code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT), error
        assert "security.protocol=SSL" in error.message
        for member, method in (
            (cluster.state.controller, Controller["register_broker"]),
            (cluster.state.broker(1), Replica["fetch"]),
        ):
            async with channel_to(member.address, transport) as channel:
                stream = channel.open(method)
                assert (await error_of(stream.receive(10))).code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            log = cluster.log_file(member)  # a thread writes it, perhaps after the answer
            await eventually(lambda log=log, method=method: method.path in log.read_text())
            (denied,) = [line for line in log.read_text().splitlines() if method.path in line]
            for word in (
                "replog.authorizer",
                '"denied"',
                "User:admin",
                "127.0.0.1",
                "it is for a broker's certificate",
            ):
                assert word in denied
        _no_secret_is_shown(cluster)
        with pytest.raises(ReplogError, match=r"says replog://.*/client/admin, and this is broker 1"):
            _broker_with_another_certificate(cluster)
    assert [member.state for member in cluster.status()] == ["stopped"] * 4


def _no_secret_is_shown(cluster: LocalCluster) -> None:
    secrets = {
        line
        for path in cluster.client_config.parent.iterdir()
        for line in path.read_text().splitlines()
        if path.name != "ca.pem" and len(line) == 64
    }
    assert len(secrets) > 5
    told = [path.read_text(errors="replace") for path in cluster.directory.glob("*/*.log")]
    for member in cluster.state.members:
        assert member.pid is not None
        told += [Path(f"/proc/{member.pid}/{each}").read_text(errors="replace") for each in ("cmdline", "environ")]
    assert not any(secret in text for text in told for secret in secrets)


def _broker_with_another_certificate(cluster: LocalCluster) -> None:
    from replog.config.processes import BrokerConfig
    from replog.rpc.peer import Role
    from replog.rpc.transports import server_tls

    tls = cluster.client_config.parent
    config = BrokerConfig.parse(
        {
            "node.id": "1",
            "log.dirs": os.fspath(cluster.directory / "other"),
            "security.protocol": "SSL",
            "ssl.keystore.location": os.fspath(tls / "client-admin.pem"),
            "ssl.truststore.location": os.fspath(tls / "ca.pem"),
        },
        "test",
    )
    server_tls(config, config.bound, Role.BROKER, "1")


def test_a_cluster_without_tls_does_not_become_a_secure_one_by_a_word(tmp_path):
    LocalCluster(tmp_path, brokers=1, secure=False)._plan()
    with pytest.raises(ReplogError, match="was made without TLS"):
        LocalCluster(tmp_path, secure=True).up()
