"""Who hosts, who reads and who commits each have few public attributes, and this table says which file uses which."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

import replog.server.broker
from replog.config.processes import BrokerConfig
from replog.metadata.image import MetadataImage
from replog.server.broker.context import BrokerContext
from replog.server.broker.replicas.hosted_replicas import HostedReplicas
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.clock import SystemClock

MOST = 8
USERS = """
replicas.hosted            housekeeping inspection_service lifecycle log_cleaner log_dirs_service log_flusher metrics
                           moves replica_manager role_changes
replicas.started           broker log_service
replicas.unreachable       metrics role_changes
replicas.gone              reopening role_changes
replicas.failure_detector  broker housekeeping log_service produce replica_manager replica_service
replicas.copying           broker
sessions.watching          metrics
sessions.shared            replica_service
sessions.cold_reads        broker
sessions.answers           log_service metrics
manager.context            consume housekeeping log_cleaner log_flusher log_service metrics moves produce
                           replica_service role_changes
manager.replicas           consume housekeeping log_cleaner log_flusher log_service metrics moves produce
                           replica_service role_changes
manager.sessions           broker consume log_service metrics replica_service
manager.produces           metrics produce
manager.record_deletions   log_service metrics
manager.waiting_produces   log_service metrics produce
manager.dirty              housekeeping log_cleaner moves role_changes
"""


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


def test_who_uses_which_is_this_table(owners):
    users = defaultdict[str, set[str]](set)
    names = {f"{name}.{attribute}" for name, owner in owners.items() for attribute in public(owner)}
    for path in Path(replog.server.broker.__path__[0]).rglob("*.py"):
        for owner, attribute in re.findall(r"(?=\b_?(replicas|sessions|manager)\.(\w+))", path.read_text()):
            if f"{owner}.{attribute}" in names:
                users[f"{owner}.{attribute}"].add(path.stem)
    table = dict(re.findall(r"^(\w+\.\w+)((?:\s+\w+(?!\.))+)$", USERS, re.MULTILINE))
    assert {name: sorted(found) for name, found in users.items()} == {
        name: sorted(found.split()) for name, found in table.items()
    }
