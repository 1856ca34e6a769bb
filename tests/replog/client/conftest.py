"""The clients against a real controller and real brokers, in this process, over gRPC on loopback."""

from tests.replog.server.broker.conftest import InProcessCluster, cluster

__all__ = ["InProcessCluster", "cluster"]
