"""What a process needs before it listens: a transport, TLS or a word that it may do without, its own certificate."""

import pytest

from replog.config.listeners import is_loopback
from replog.config.processes import BrokerConfig, ControllerConfig
from replog.errors import ErrorCode, ReplogError
from replog.rpc.peer import Role
from replog.rpc.transports import (
    CLIENT_CONFIG,
    DEFAULT,
    TRANSPORTS,
    VARIABLE,
    GrpcTransport,
    H2Transport,
    client_tls,
    client_transport,
    server_tls,
    transport_named,
)
from tests.replog.rpc.secured import CLUSTER, Authority


def _tls(tmp_path, listener="127.0.0.1:9092", role=Role.BROKER, name="1", **settings):
    properties = {"node.id": "1", "log.dirs": str(tmp_path / "data"), "listeners": listener}
    config = BrokerConfig.parse(properties | {key.replace("_", "."): value for key, value in settings.items()}, "test")
    return server_tls(config, config.bound, role, name)


@pytest.mark.parametrize("listener", ["0.0.0.0:9092", "[::]:9092", "broker-1:9092", "10.0.0.1:9092"])
def test_a_listener_beyond_this_machine_has_tls_or_is_allowed_to_do_without(tmp_path, listener):
    advertised = {"advertised_listeners": "broker-1:9092"}
    with pytest.raises(
        ReplogError, match=rf"listeners=.*{listener[1:5]}.*security.protocol=SSL.*allow.plaintext=true"
    ) as no:
        _tls(tmp_path, listener, **advertised)
    assert no.value.code is ErrorCode.INVALID_CONFIG
    assert _tls(tmp_path, listener, **advertised, allow_plaintext="true") is None
    authority = Authority(tmp_path / "tls")
    _tls(
        tmp_path,
        listener,
        **advertised,
        security_protocol="SSL",
        ssl_keystore_location=str(authority.keystore(Role.BROKER, "1")),
        ssl_truststore_location=str(authority.truststore),
    )


def test_this_machine_is_known_by_its_names():
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.3.4.5", "::1", "[::1]")))
    assert not any(map(is_loopback, ("0.0.0.0", "[::]", "localhost.example.net", "10.0.0.1")))


@pytest.mark.parametrize(
    ("role", "name", "says"),
    [
        (Role.BROKER, "2", r"says replog://.*/broker/2, and this is broker 1; .*replog tls issue broker 1"),
        (Role.CLIENT, "1", r"says replog://.*/client/1, and this is broker 1"),
    ],
)
def test_a_process_has_its_own_certificate(tmp_path, role, name, says):
    authority = Authority(tmp_path / "tls")
    with pytest.raises(ReplogError, match=says):
        _tls(
            tmp_path,
            security_protocol="SSL",
            ssl_keystore_location=str(authority.keystore(role, name)),
            ssl_truststore_location=str(authority.truststore),
        )


def test_a_certificate_of_another_cluster_is_told_from_the_processes_own(tmp_path):
    tls = Authority(tmp_path / "tls").tls(Role.BROKER, "1")
    tls.check_cluster(CLUSTER)
    with pytest.raises(ReplogError, match=f"is of cluster '{CLUSTER}', and this is 'another'; .*--cluster-id another"):
        tls.check_cluster("another")


def test_tls_without_its_files_is_refused_by_the_settings_name(tmp_path):
    authority = Authority(tmp_path / "tls")
    with pytest.raises(ReplogError, match=r"ssl.truststore.location is missing"):
        _tls(tmp_path, security_protocol="SSL")
    with pytest.raises(ReplogError, match=r"ssl.keystore.location is missing"):
        _tls(tmp_path, security_protocol="SSL", ssl_truststore_location=str(authority.truststore))


def test_clients_find_their_certificate_by_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv(CLIENT_CONFIG, raising=False)
    assert client_tls() is None
    authority = Authority(tmp_path / "tls")
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SSL\nssl.keystore.location={authority.keystore(Role.CLIENT, 'ann')}\n"
        f"ssl.truststore.location={authority.truststore}\n"
    )
    monkeypatch.setenv(CLIENT_CONFIG, str(file))
    found = client_tls()
    assert found is not None
    assert found.material.identity is not None
    assert found.material.identity.name == "ann"
    assert client_tls() is found, "read once"
    assert client_transport() is not None
    monkeypatch.setenv(CLIENT_CONFIG, str(tmp_path / "none"))
    with pytest.raises(ReplogError, match="cannot read"):
        client_tls()


def test_paths_of_a_clients_file_count_from_the_file(tmp_path, monkeypatch):
    authority = Authority(tmp_path / "tls")
    keystore = authority.keystore(Role.CLIENT, "ann")
    file = tmp_path / "client.properties"
    names = [path.relative_to(tmp_path) for path in (keystore, authority.truststore)]
    stores = f"ssl.keystore.location={names[0]}\nssl.truststore.location={names[1]}\n"
    file.write_text(f"security.protocol=SSL\n{stores}")
    monkeypatch.chdir("/")
    assert client_tls(str(file)) is not None
    other = tmp_path / "other.properties"
    other.write_text(stores)
    with pytest.raises(
        ReplogError, match=r"security.protocol is PLAINTEXT, which uses neither; add security.protocol=SSL"
    ):
        client_tls(str(other))


def test_the_setting_goes_before_the_environment(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert isinstance(transport_named(), TRANSPORTS[DEFAULT])
    monkeypatch.setenv(VARIABLE, "h2")
    assert isinstance(transport_named(), H2Transport)
    assert isinstance(transport_named("grpcio"), GrpcTransport)


def test_a_name_that_is_none_is_refused(monkeypatch):
    monkeypatch.setenv(VARIABLE, "http3")
    with pytest.raises(ReplogError, match="REPLOG_RPC_TRANSPORT='http3': choose grpcio or h2") as raised:
        transport_named()
    assert raised.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("name", [*TRANSPORTS, ""])
def test_every_transport_is_a_setting_of_brokers_and_controllers(name):
    said = {"rpc.transport": name}
    assert BrokerConfig.parse(said | {"node.id": 1, "log.dirs": "/d"}, "test").rpc_transport == name
    assert ControllerConfig.parse(said | {"metadata.log.dir": "/d"}, "test").rpc_transport == name
    with pytest.raises(ReplogError, match=r"rpc\.transport"):
        ControllerConfig.parse({"rpc.transport": "tcp", "metadata.log.dir": "/d"}, "test")
