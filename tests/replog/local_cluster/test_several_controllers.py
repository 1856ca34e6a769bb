"""A local cluster with several controllers on three etcds."""

import pytest

from replog.client import SyncAdmin
from replog.errors import ReplogError
from replog.local_cluster import etcds
from replog.local_cluster.cluster_file import ClusterFile, EtcdMember, LocalMember
from replog.local_cluster.local_cluster import LocalCluster
from replog.rpc.transports import H2Transport
from tests.replog.server.controller.etcds import path_with_etcd

MEMBERS = ["etcd-1", "etcd-2", "etcd-3", "controller-1", "controller-2", "broker-1"]


@pytest.mark.processes
def test_any_controller_and_any_etcd_may_be_lost(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", path_with_etcd(tmp_path / "bin"))
    cluster = LocalCluster(tmp_path / "cluster", brokers=1, controllers=2, secure=True)
    with cluster, SyncAdmin(cluster.bootstrap, transport=H2Transport(cluster.tls)) as admin:
        assert [(member.name, member.state) for member in cluster.status()] == [(name, "running") for name in MEMBERS]
        admin.create_topic("before", partitions=1)
        cluster.kill("etcd-2")
        cluster.kill("controller-1")
        admin.create_topic("by-the-second", partitions=1)
        cluster.up()
        cluster.kill("controller-2")
        cluster.kill("etcd-1")
        admin.create_topic("with-etcd-2", partitions=1)
        assert set(admin.list_topics()) == {"before", "by-the-second", "with-etcd-2"}
        cluster.up()
    assert [member.state for member in cluster.status()] == ["stopped"] * len(MEMBERS)


def test_without_an_etcd_it_is_said_what_to_install_and_nothing_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(etcds, "find_spec", lambda _: None)
    with pytest.raises(ReplogError, match=r"no program etcd on PATH; run: apt-get install etcd-server"):
        LocalCluster(tmp_path / "cluster", controllers=3).up()
    assert ClusterFile.load(tmp_path / "cluster") is None


def test_an_etcd_that_has_lost_its_data_does_not_begin_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(etcds, "find_program", lambda: tmp_path / "etcd")
    cluster = LocalCluster(tmp_path, controllers=3, secure=False)
    state = cluster._plan()
    state.formatted = True
    for etcd in state.etcds[1:]:
        (cluster.home(etcd) / "data" / "member").mkdir(parents=True)
    state.save(cluster.directory)
    with pytest.raises(ReplogError, match=r"etcd-1 in .* lost its data, and must not begin again as who it was"):
        cluster.up()


def test_a_cluster_keeps_its_number_of_controllers(tmp_path):
    LocalCluster(tmp_path, brokers=1, secure=False)._plan()
    with pytest.raises(ReplogError, match="a cluster of 1 controllers, and keeps that number"):
        LocalCluster(tmp_path, controllers=3, secure=False).up()
    with pytest.raises(ReplogError, match="controllers=10: choose from 1 to 9"):
        LocalCluster(tmp_path / "other", controllers=10, secure=False).up()


def test_members_are_found_by_name_and_brokers_by_id():
    state = ClusterFile(
        controller=LocalMember(name="controller", node_id=0, port=1),
        etcds=[EtcdMember(name="etcd-1", node_id=0, port=2, peer_port=3)],
        brokers=[LocalMember(name="broker-1", node_id=1, port=4)],
    )
    assert [state.member(name).port for name in ("controller", "etcd-1", "broker-1", "1")] == [1, 2, 4, 4]
    for name in ("etcd-2", "2"):
        with pytest.raises(ReplogError, match="-2 is not in this cluster; it has etcd-1, controller, broker-1"):
            state.member(name)
