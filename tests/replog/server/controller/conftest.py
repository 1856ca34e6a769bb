"""The cluster of the decisions' tests serves here too."""

from tests.replog.controller.conftest import cluster, make_cluster, refused, running, three

__all__ = ["cluster", "make_cluster", "refused", "running", "three"]
