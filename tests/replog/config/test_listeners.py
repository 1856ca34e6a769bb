"""Listeners of a broker by name, and what of them does not fit together."""

import pytest

from replog.config.listeners import MAX_LISTENERS, Listener
from replog.config.processes import BrokerConfig
from replog.errors import ReplogError


def config(**settings: str) -> BrokerConfig:
    properties = {name.replace("_", "."): value for name, value in settings.items()}
    return BrokerConfig.parse({"node.id": "1", "log.dirs": "/data", **properties}, "test")


def test_one_address_is_a_listener_with_the_name_of_its_protocol():
    assert config(listeners="h:1").bound == (Listener("PLAINTEXT", "h:1", "", "PLAINTEXT"),)
    assert config(listeners="h:1", advertised_listeners="x:2", security_protocol="SSL").bound == (
        Listener("SSL", "h:1", "x:2", "SSL"),
    )
    assert config(listeners="plaintext://h:1").bound == config(listeners="h:1").bound


def test_of_several_the_one_between_brokers_comes_first():
    settings = {
        "listeners": "CLIENT://0.0.0.0:1, REPLICATION://h:2,LOCAL://127.0.0.1:3",
        "advertised_listeners": "CLIENT://broker-1.example.net:1",
        "listener_security_protocol_map": "LOCAL:PLAINTEXT,CONTROLLER:SSL",
        "security_protocol": "SSL",
        "inter_broker_listener_name": "replication",
    }
    assert config(**settings).bound == (
        Listener("REPLICATION", "h:2", "", "SSL"),
        Listener("CLIENT", "0.0.0.0:1", "broker-1.example.net:1", "SSL"),
        Listener("LOCAL", "127.0.0.1:3", "", "PLAINTEXT"),
    )


def test_of_several_the_one_called_as_what_brokers_speak_is_between_them_if_none_is_named():
    assert [listener.name for listener in config(listeners="SSL://h:1,PLAINTEXT://h:2").bound] == ["PLAINTEXT", "SSL"]
    assert config(listeners="SSL://h:1,PLAINTEXT://h:2").bound[1].protocol == "SSL"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"listeners": "A://h:1,h:2"}, "'h:2' has no name; with several, each is NAME://host:port"),
        ({"listeners": "A://h:1,a://h:2"}, "A is there twice"),
        ({"listeners": "é://h:1"}, "'é' is no name of a listener"),
        ({"listeners": "A://h"}, "'h' is not host:port"),
        ({"listeners": ""}, "'' is not host:port"),
        ({"listeners": ",".join(f"L{n}://h:{n}" for n in range(MAX_LISTENERS + 1))}, f"at most {MAX_LISTENERS}"),
        ({"listeners": "A://h:1,B://h:2"}, "inter.broker.listener.name=PLAINTEXT is none of listeners=A://h:1,B"),
        ({"inter_broker_listener_name": "X"}, "inter.broker.listener.name=X is none of listeners"),
        ({"inspection_listener_name": "X"}, "inspection.listener.name=X is none of listeners"),
        ({"listeners": "0.0.0.0:1"}, "no address that others can connect to; set advertised.listeners too"),
        ({"listeners": "PLAINTEXT://h:1,A://[::]:1"}, "no address that others can connect to"),
        ({"advertised_listeners": "0.0.0.0:1"}, "advertised.listeners=0.0.0.0:1 is each host's own address"),
        ({"advertised_listeners": "[0::0]:1"}, "name this host as others know it"),
        ({"advertised_listeners": "0:1"}, "name this host as others know it"),
        ({"advertised_listeners": "B://h:2"}, "advertised.listeners names 'B', which listeners=127.0.0.1:9092 does"),
        ({"listener_security_protocol_map": "A:SASL_SSL"}, "'A:SASL_SSL' is not NAME:PROTOCOL, with PLAINTEXT or SSL"),
        ({"listeners": "SSL://h:1"}, "listener SSL is for brokers and speaks SSL, and security.protocol=PLAINTEXT"),
    ],
)
def test_what_does_not_fit_together_is_refused_with_its_value(settings, says):
    with pytest.raises(ReplogError) as refused:
        config(**settings)
    assert says in refused.value.message
