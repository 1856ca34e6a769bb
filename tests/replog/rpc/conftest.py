"""Both kinds of gRPC."""

from typing import Any

import pytest

from replog.rpc.grpcio.channel import GrpcTransport
from replog.rpc.http2.transport import H2Transport
from replog.rpc.transport import Transport

TRANSPORTS: dict[str, Transport] = {"grpcio": GrpcTransport(), "h2": H2Transport()}


@pytest.fixture(params=TRANSPORTS.values(), ids=TRANSPORTS)
def transport(request: Any) -> Transport:
    return request.param


@pytest.fixture(autouse=True)
def _connecting_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Client and server share one event loop here, and the machine with others."""
    monkeypatch.setattr("replog.rpc.http2.channel.CONNECT_S", 60.0)
