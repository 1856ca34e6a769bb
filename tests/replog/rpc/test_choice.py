"""The transport of a process: its setting, else the environment's, else the usual one."""

import pytest

from replog.config.processes import BrokerConfig, ControllerConfig
from replog.errors import ErrorCode, ReplogError
from replog.rpc.transports import DEFAULT, TRANSPORTS, VARIABLE, GrpcTransport, H2Transport, transport_named


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
