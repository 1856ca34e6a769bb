"""The HTTP server of metrics: what it answers, and to whom."""

import asyncio
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric

from replog.errors import ErrorCode, ReplogError
from replog.rpc.peer import Peer, Role
from replog.server.metrics import endpoint
from replog.server.metrics.endpoint import AT_ONCE, MetricsEndpoint
from tests.replog.rpc.secured import Authority

ASKED: list[Peer] = []


async def families(asks: Peer) -> list[Metric]:
    ASKED.append(asks)
    return [GaugeMetricFamily("replog_test", "Of a test", value=7)]


@asynccontextmanager
async def listening(tls=None, families=families) -> AsyncIterator[str]:
    server = MetricsEndpoint("127.0.0.1:0", families, tls, allow_plaintext=False)
    try:
        yield await server.start()
    finally:
        await server.stop()


async def asked(url: str, context: ssl.SSLContext | None = None) -> str:
    def ask() -> str:
        with urllib.request.urlopen(url, timeout=30, context=context) as answer:
            return answer.read().decode()

    return await asyncio.to_thread(ask)


async def test_it_answers_in_prometheus_format():
    async with listening() as address:
        assert "# TYPE replog_test gauge\nreplog_test 7.0" in await asked(f"http://{address}/metrics")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            await asked(f"http://{address}/other")


async def test_who_may_not_see_it_is_told_why():
    async def refused(asks: Peer) -> list[Metric]:
        raise ReplogError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{asks.principal} may not")

    async with listening(families=refused) as address:
        with pytest.raises(urllib.error.HTTPError, match="403") as error:
            await asked(f"http://{address}/metrics")
        assert "User:ANONYMOUS may not" in error.value.read().decode()


async def test_with_tls_only_certificates_of_the_cluster_are_let_in_and_the_peer_is_known(tmp_path):
    authority = Authority(tmp_path / "tls")
    async with listening(authority.tls(Role.BROKER, "1")) as address:
        url = f"https://{address.replace('127.0.0.1', 'localhost')}/metrics"
        context = ssl.create_default_context(cafile=str(authority.truststore))
        with pytest.raises((OSError, urllib.error.URLError)):
            await asked(url, context)
        context.load_cert_chain(authority.keystore(Role.CLIENT, "ann"))
        assert "replog_test 7.0" in await asked(url, context)
        assert ASKED[-1].principal == "User:ann"


async def test_beyond_this_machine_it_has_tls_or_is_allowed_to_do_without():
    with pytest.raises(ReplogError, match=r"metrics.listener=0.0.0.0:0.*allow.plaintext=true"):
        await MetricsEndpoint("0.0.0.0:0", families, None, allow_plaintext=False).start()


async def test_to_start_asks_nobody_for_the_name_of_this_machine(monkeypatch):
    """Who answers may take its time, and the event loop would wait."""

    def asked_for(_: str = "") -> str:
        raise AssertionError("the resolver was asked")

    monkeypatch.setattr(socket, "getfqdn", asked_for)
    async with listening() as address:
        assert address


async def test_a_port_that_is_taken_is_an_error_that_names_the_setting():
    async with listening() as address:
        with pytest.raises(ReplogError, match=f"metrics.listener={address}"):
            await MetricsEndpoint(address, families, None, allow_plaintext=False).start()


@pytest.mark.parametrize("secure", [False, True], ids=["plaintext", "TLS"])
async def test_those_who_say_nothing_take_no_more_than_their_places_and_not_for_long(monkeypatch, tmp_path, secure):
    monkeypatch.setattr(endpoint, "REQUEST_S", 1.0)
    authority, context, tls = Authority(tmp_path / "tls"), None, None
    if secure:
        tls = authority.tls(Role.BROKER, "1")
        context = ssl.create_default_context(cafile=str(authority.truststore))
        context.load_cert_chain(authority.keystore(Role.CLIENT, "ann"))
    async with listening(tls) as address:
        host, port = address.split(":")
        url = f"https://localhost:{port}/metrics" if secure else f"http://{address}/metrics"
        silent = [socket.create_connection((host, int(port))) for _ in range(AT_ONCE)]
        begun = time.monotonic()
        while True:
            try:
                assert "replog_test" in await asked(url, context)
                break
            except OSError:
                assert time.monotonic() - begun < 60
                await asyncio.sleep(0.1)
        for connection in silent:
            connection.close()
