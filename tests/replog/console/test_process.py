"""Who is let in where others than this machine may come."""

import ssl

import pytest

from replog.console.process import http_server, tls_context, watching
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster import authority
from replog.local_cluster.ports import free_port
from replog.rpc.peer import Role
from tests.replog.console.conftest import Console, running


@pytest.fixture
def files(tmp_path, monkeypatch):
    authority.init(tmp_path, "a-cluster")
    files = {
        "console": authority.issue(tmp_path, Role.CONTROLLER, "console"),
        "client": authority.issue(tmp_path, Role.CLIENT, "ann"),
        "ca": tmp_path / "ca.pem",
    }
    config = tmp_path / "client.properties"
    config.write_text(
        f"security.protocol=SSL\nssl.keystore.location={files['client']}\nssl.truststore.location={files['ca']}\n"
    )
    monkeypatch.setenv("REPLOG_CLIENT_CONFIG", str(config))
    return files


async def test_over_tls_only_who_shows_a_certificate_of_the_authority_is_let_in(files):
    port = free_port(set())
    shown = tls_context("0.0.0.0", f"0.0.0.0:{port}", files["console"])
    async with watching("127.0.0.1:1") as watcher, running(http_server(watcher, "127.0.0.1", port, shown)):
        context = ssl.create_default_context(cafile=files["ca"])
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await Console(port, context).get("/")
        context.load_cert_chain(files["client"])
        assert (await Console(port, context).get("/", host="console.example.net"))[0] == 200


def test_what_would_let_anybody_in_is_refused(files, monkeypatch):
    assert tls_context("127.0.0.1", "127.0.0.1:8080", None) is None
    assert tls_context("localhost", "localhost:8080", None) is None
    with pytest.raises(ReplogError, match="--keystore FILE") as refused:
        tls_context("0.0.0.0", "0.0.0.0:8080", None)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    with pytest.raises(ReplogError, match="--keystore"):
        tls_context("0.0.0.0", "0.0.0.0:8080", files["ca"])
    monkeypatch.delenv("REPLOG_CLIENT_CONFIG")
    with pytest.raises(ReplogError, match="REPLOG_CLIENT_CONFIG"):
        tls_context("0.0.0.0", "0.0.0.0:8080", files["console"])
