"""Who is let in where others than this machine may come."""

import ssl

import pytest

from replog.console.process import certificates, http_server, watching
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
    shown = certificates("0.0.0.0", f"0.0.0.0:{port}", files["console"])
    async with watching("127.0.0.1:1") as watcher, running(http_server(watcher, "127.0.0.1", port, shown)):
        context = ssl.create_default_context(cafile=files["ca"])
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await Console(port, context).get("/")
        context.load_cert_chain(files["client"])
        assert (await Console(port, context).get("/", host="console.example.net"))[0] == 200


async def test_new_certificates_are_used_for_the_connections_that_come_then(files, tmp_path, monkeypatch):
    monkeypatch.setattr("replog.console.process.LOOK_S", 0.0)
    other = tmp_path / "other"
    other.mkdir()
    authority.init(other, "a-cluster")
    shown = certificates("0.0.0.0", "0.0.0.0:1", files["console"])
    ann = ssl.create_default_context(cafile=files["ca"])
    ann.load_cert_chain(files["client"])
    bob = ssl.create_default_context(cafile=other / "ca.pem")
    bob.load_cert_chain(authority.issue(other, Role.CLIENT, "bob"))
    port = free_port(set())

    async with watching("127.0.0.1:1") as watcher, running(http_server(watcher, "127.0.0.1", port, shown)):
        files["console"].write_bytes(b"nothing")
        assert (await Console(port, ann).get("/", host="console.example.net"))[0] == 200, "those from before stay"
        files["ca"].write_bytes((other / "ca.pem").read_bytes())
        files["console"].write_bytes(authority.issue(other, Role.CONTROLLER, "console").read_bytes())
        assert (await Console(port, bob).get("/", host="console.example.net"))[0] == 200
        ann.load_verify_locations(other / "ca.pem")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await Console(port, ann).get("/")


def test_what_would_let_anybody_in_is_refused(files, monkeypatch):
    assert certificates("127.0.0.1", "127.0.0.1:8080", None) is None
    assert certificates("localhost", "localhost:8080", None) is None
    with pytest.raises(ReplogError, match="--keystore FILE") as refused:
        certificates("0.0.0.0", "0.0.0.0:8080", None)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    with pytest.raises(ReplogError, match="--keystore"):
        certificates("0.0.0.0", "0.0.0.0:8080", files["ca"])
    monkeypatch.delenv("REPLOG_CLIENT_CONFIG")
    with pytest.raises(ReplogError, match="REPLOG_CLIENT_CONFIG"):
        certificates("0.0.0.0", "0.0.0.0:8080", files["console"])
