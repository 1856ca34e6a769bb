"""A broker passes a client's request on with its own certificate; what the client may do, its ACLs say."""

import ssl
from pathlib import Path

import pytest

from replog.errors import ErrorCode
from replog.kafka.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    MetadataRequest,
    MetadataRequestTopic,
)
from replog.local_cluster import authority
from replog.local_cluster.cluster_file import CA_CERTIFICATE, TLS_DIRECTORY
from replog.local_cluster.local_cluster import LocalCluster
from replog.rpc.peer import Role
from tests.replog.server.broker.conftest import eventually
from tests.replog.server.broker.kafka.client import connected

pytestmark = pytest.mark.processes
MS = 30_000


def certificate(cluster: LocalCluster, user: str) -> ssl.SSLContext:
    directory = cluster.directory / TLS_DIRECTORY
    context = ssl.create_default_context(cafile=directory / CA_CERTIFICATE)
    path = directory / f"client-{user}.pem"
    context.load_cert_chain(path if path.exists() else authority.issue(directory, Role.CLIENT, user))
    return context


async def test_a_broker_asks_for_the_clients_that_may_ask(tmp_path: Path) -> None:
    create = CreateTopicsRequest([CreateTopicsRequestTopic("t", 1, 2)], MS)
    unknown = MetadataRequest([MetadataRequestTopic(name="auto")])
    with LocalCluster(tmp_path / "cluster", brokers=2, secure=True) as cluster:
        asked, other = (broker.address for broker in cluster.state.brokers)
        async with connected(asked, certificate(cluster, "ann")) as ann:
            (row,) = (await ann.ask(create, 7)).topics
            assert row.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED, row
            (row,) = (await ann.ask(unknown, 12)).topics
            assert row.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED, row
        log = cluster.log_file(cluster.state.brokers[0])
        await eventually(lambda: "Kafka/CreateTopics" in log.read_text())
        (line,) = [line for line in log.read_text().splitlines() if "Kafka/CreateTopics" in line]
        assert all(word in line for word in ('"denied"', "User:ann", "CREATE", "TOPIC:t"))
        async with connected(asked, certificate(cluster, "admin")) as admin:
            (row,) = (await admin.ask(create, 7)).topics
            assert row.error_code == 0, row
            more = CreatePartitionsRequest([CreatePartitionsRequestTopic("t", 3)], MS)
            (result,) = (await admin.ask(more, 3)).results
            assert result.error_code == 0, result
            (row,) = (await admin.ask(unknown, 12)).topics
            assert row.error_code == 0, "a local cluster makes topics, if ACLs allow it"
        async with connected(other, certificate(cluster, "admin")) as admin:
            (described,) = (await admin.ask(MetadataRequest([MetadataRequestTopic(name="t")]), 12)).topics
            assert [partition.leader_id > 0 for partition in described.partitions] == [True] * 3
            deletion = DeleteTopicsRequest([DeleteTopicsRequestTopic(None, described.topic_id)], (), MS)
            (gone,) = (await admin.ask(deletion, 6)).responses
            assert (gone.name, gone.error_code) == ("t", 0)
