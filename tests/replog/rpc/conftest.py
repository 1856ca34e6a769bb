"""Connections between a client and a server of one process."""

import pytest


@pytest.fixture(autouse=True)
def _connecting_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Client and server share one event loop here, and the machine with others."""
    monkeypatch.setattr("replog.rpc.http2.shells.channel.CONNECT_S", 60.0)
