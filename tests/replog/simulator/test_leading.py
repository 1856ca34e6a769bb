"""The check of several controllers, broken by hand."""

from types import SimpleNamespace

import pytest

from replog.rpc.v1 import etcd_pb2
from replog.rpc.v1.etcd_store_pb2 import StoreHead
from replog.server.controller.etcd.client import Keys, put
from replog.simulator.etcd import PREFIX, EtcdState
from replog.simulator.invariants import Violation
from replog.simulator.leading import ControllersCheck
from replog.simulator.runtime.process import SimulatedProcess

KEYS = Keys(PREFIX)


@pytest.fixture
def etcd():
    return SimpleNamespace(process=SimulatedProcess("etcd"), state=EtcdState(), revoked=set())


def written(etcd, key, value, lease=0):
    return etcd.state.txn(etcd_pb2.TxnRequest(success=[put(key, value, lease)])).header.revision


def committed(etcd, version, epoch):
    written(etcd, KEYS.head, StoreHead(version=version, epoch=epoch).SerializeToString())


def member(name, epoch, decides=True):
    return SimpleNamespace(name=name, server=SimpleNamespace(decides=decides, epoch=epoch))


def test_only_the_one_that_leads_commits(etcd):
    check = ControllersCheck(etcd, [])
    epoch = written(etcd, KEYS.leader, b"one", etcd.state.grant(5, 0))
    committed(etcd, 1, epoch)
    check.after_step(etcd.process)
    committed(etcd, 2, epoch - 1)
    with pytest.raises(Violation, match=f"of epoch {epoch - 1} has committed version 2, and that of epoch {epoch}"):
        check.after_step(etcd.process)
    etcd.state.expire(6000)
    committed(etcd, 2, epoch)
    with pytest.raises(Violation, match="and nobody leads"):
        check.after_step(etcd.process)


def test_versions_do_not_fall(etcd):
    check = ControllersCheck(etcd, [])
    epoch = written(etcd, KEYS.leader, b"one")
    committed(etcd, 7, epoch)
    check.after_step(etcd.process)
    committed(etcd, 6, epoch)
    with pytest.raises(Violation, match="was at version 7, and now at 6"):
        check.after_step(etcd.process)


def test_one_believes_that_it_leads_unless_its_lease_was_taken_away(etcd):
    members = [member("a", 5), member("b", 9, decides=False), SimpleNamespace(name="c", server=None)]
    check, process = ControllersCheck(etcd, members), SimulatedProcess("controller-2")
    check.after_step(process)
    members[1] = member("b", 9)
    with pytest.raises(Violation, match="a and b believe"):
        check.after_step(process)
    etcd.revoked.add(5)
    check.after_step(process)
