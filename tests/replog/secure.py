"""`make test-secure`: local clusters of the tests have TLS and an authorizer, and clients are its super user.

A test that is about plaintext is marked so, with the reason, and left out of that run.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from replog.config.properties import load_properties
from replog.local_cluster import authority
from replog.local_cluster.local_cluster import LocalCluster
from replog.rpc.peer import Role
from replog.rpc.transports import CLIENT_CONFIG

SECURE = bool(os.environ.get("REPLOG_TEST_SECURE"))


def secure_local_clusters() -> None:
    """From now on each is secure unless it says otherwise; the environment tells clients of the last that was up."""
    LocalCluster.__init__.__kwdefaults__["secure"] = True  # type: ignore[attr-defined]
    up = LocalCluster.up

    @wraps(up)
    def known(self: LocalCluster, *arguments: Any, **options: Any) -> LocalCluster:
        running = up(self, *arguments, **options)
        os.environ[CLIENT_CONFIG] = str(self.client_config) if self.client_config.exists() else ""
        return running

    LocalCluster.up = known  # type: ignore[method-assign]


@contextmanager
def same_certificate_afterwards() -> Iterator[None]:
    """A cluster that was up inside is no longer the one that clients know."""
    with pytest.MonkeyPatch.context() as environment:
        if SECURE:
            environment.setenv(CLIENT_CONFIG, os.environ.get(CLIENT_CONFIG, ""))
        yield


def broker_certificate(cluster: LocalCluster, broker_id: int) -> dict[str, str]:
    """Settings of a broker that a test adds by itself; none if the cluster has no TLS."""
    if not cluster.client_config.exists():
        return {}
    tls = cluster.client_config.parent
    keystore: Path = tls / f"broker-{broker_id}.pem"
    if not keystore.exists():
        authority.issue(tls, Role.BROKER, str(broker_id))
    return load_properties(cluster.client_config) | {"ssl.keystore.location": str(keystore)}
