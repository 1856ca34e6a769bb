"""Who hosts, who reads and who commits each have few public attributes."""

import pytest

from replog.config.processes import BrokerConfig
from replog.metadata.image import MetadataImage
from replog.server.broker.context import BrokerContext
from replog.server.broker.replicas.hosted_replicas import HostedReplicas
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.clock import SystemClock

MOST = 8


@pytest.fixture(scope="module")
def owners(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    config = BrokerConfig(node_id=1, log_dirs=tmp_path_factory.mktemp("logs"))
    context = BrokerContext(config, MetadataImage(), SystemClock(), lambda _: None)
    manager = ReplicaManager(context, HostedReplicas(context), lambda *_: True)
    return {"replicas": manager.replicas, "sessions": manager.sessions, "manager": manager}


def public(owner: object) -> list[str]:
    return [name for name in vars(owner) if not name.startswith("_")]


def test_each_owner_has_few_public_attributes(owners):
    assert {name: len(public(owner)) for name, owner in owners.items() if len(public(owner)) > MOST} == {}
    assert len(BrokerContext.__slots__) <= MOST
