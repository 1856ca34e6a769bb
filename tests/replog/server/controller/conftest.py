"""The cluster of the decisions' tests serves here too; and real etcds."""

import pytest

from tests.replog.controller.conftest import cluster, make_cluster, refused, running, three
from tests.replog.server.controller.etcds import Etcds, etcd_or_skip

__all__ = ["cluster", "make_cluster", "refused", "running", "three"]


@pytest.fixture(scope="session")
def etcd(tmp_path_factory):
    """The address of a real one."""
    etcds = Etcds(etcd_or_skip(), tmp_path_factory.mktemp("etcd"))
    try:
        etcds.start()
        yield etcds.endpoints[0]
    finally:
        etcds.stop()
