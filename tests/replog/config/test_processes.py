"""Settings: Kafka's names, checked where they come in, refused with the name, the value and what would be right.
Listeners by name, and what of them does not fit together."""

from pathlib import Path

import pytest

from replog.config.listeners import MAX_LISTENERS, Listener, parse_address
from replog.config.processes import BrokerConfig, ControllerConfig
from replog.config.properties import MAX_LONG, PATHS, load_properties, load_settings, number_in
from replog.config.topic import TopicConfig
from replog.errors import ErrorCode, ReplogError


def test_defaults_are_kafkas_but_for_the_safe_ones():
    config = TopicConfig()
    assert config.segment_bytes == 1_073_741_824
    assert config.index_interval_bytes == 4096
    assert config.max_message_bytes == 1_048_588
    assert config.min_insync_replicas == 2


def test_settings_come_under_kafkas_names():
    config = TopicConfig.parse({"segment.bytes": "4096", "min.insync.replicas": "1"}, "topic t")
    assert (config.segment_bytes, config.min_insync_replicas) == (4096, 1)
    assert config.properties()["segment.bytes"] == 4096


def test_every_bad_setting_is_named_with_its_source():
    with pytest.raises(ReplogError) as raised:
        BrokerConfig.parse({"node.id": "x", "segment.bites": "1", "listeners": "nowhere"}, "broker.properties")
    assert raised.value.code is ErrorCode.INVALID_CONFIG
    for part in (
        "broker.properties",
        "node.id='x'",
        "segment.bites is not a setting",
        "log.dirs is missing",
        "'nowhere'",
    ):
        assert part in raised.value.message, raised.value.message


def test_log_dirs_are_one_directory_or_several():
    def log_dirs(value: object) -> tuple[Path, ...]:
        return BrokerConfig.parse({"node.id": "1", "log.dirs": value}, "broker.properties").log_dirs

    assert log_dirs("/a") == log_dirs(Path("/a")) == (Path("/a"),)
    assert log_dirs("/b, /a,relative") == (Path("/b"), Path("/a"), Path("relative"))
    config = BrokerConfig.parse({"node.id": "1", "log.dirs": "/b,/a"}, "broker.properties")
    assert config.properties()["log.dirs"] == "/b,/a"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "has no name"),
        ("/a,,/b", "has no name"),
        ("/a,/b/../a/", "/a is there twice"),
        ("/a/b,/a", "/a/b lies in /a"),
        ("/a,/a/b/c", "/a/b/c lies in /a"),
        (",".join(f"/d{number}" for number in range(101)), "at most 100 items"),
    ],
)
def test_log_dirs_that_would_meet_are_refused(value, reason):
    with pytest.raises(ReplogError) as raised:
        BrokerConfig.parse({"node.id": "1", "log.dirs": value}, "broker.properties")
    assert reason in raised.value.message


@pytest.mark.parametrize("value", ["host", ":1", "host:", "host:x", "host:65536", "host:-1", "host:１"])
def test_an_address_is_host_and_port(value):
    with pytest.raises(ValueError):
        parse_address(value)


def test_a_properties_file_is_read_as_java_would(tmp_path):
    path = tmp_path / "broker.properties"
    path.write_text("# comment\n\n! another\n node.id = 1 \nlog.dirs=/a=b\n")
    assert load_properties(path) == {"node.id": "1", "log.dirs": "/a=b"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [("node.id\n", ":1: 'node.id' is not name=value"), ("a=1\na=2\n", ":2: a is set twice"), ("\xff", "cannot read")],
)
def test_a_malformed_file_is_refused_with_its_line(tmp_path, content, reason):
    path = tmp_path / "broker.properties"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(ReplogError, match=reason):
        load_properties(path)


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(ReplogError, match=r"cannot read .*nowhere\.properties"):
        load_properties(tmp_path / "nowhere.properties")


@pytest.mark.parametrize(
    ("addresses", "word"),
    [("a:1,b", "'b' is not host:port"), ("a:1,,b:2", "is not host:port"), (",".join(["a:1"] * 21), "at most 20")],
)
def test_addresses_are_checked_one_by_one_and_bounded(addresses, word):
    properties = {"node.id": 1, "log.dirs": "/x"}
    fine = BrokerConfig.parse(properties | {"controller.listener": "a:1, b:2"}, "test")
    assert fine.controller_listener == "a:1,b:2"
    with pytest.raises(ReplogError, match=word):
        BrokerConfig.parse(properties | {"controller.listener": addresses}, "test")


@pytest.mark.parametrize(
    ("properties", "wanted"),
    [
        ({}, "metadata.log.dir is missing"),
        ({"metadata.store": "etcd", "metadata.log.dir": "/x"}, "metadata.etcd.endpoints is missing"),
        ({"metadata.store": "etcd", "metadata.etcd.endpoints": "e:1", "metadata.etcd.prefix": "x"}, "like /replog/"),
    ],
)
def test_a_controller_says_where_its_store_is(properties, wanted):
    with pytest.raises(ReplogError, match=wanted):
        ControllerConfig.parse(properties, "test")


def test_a_setting_that_is_spelt_wrong_is_told_with_the_right_one_and_many_wrong_ones_cost_little():
    with pytest.raises(ReplogError, match=r"node\.idd is not a setting here; did you mean node\.id\?"):
        BrokerConfig.parse({"node.idd": 1, "log.dirs": "/x"}, "test")
    with pytest.raises(ReplogError, match=r"unheard\.of is not a setting here \(known: .*node\.id, "):
        BrokerConfig.parse({"unheard.of": 1}, "test")
    with pytest.raises(ReplogError) as many:
        TopicConfig.parse({f"unheard.of.{number}": 1 for number in range(10_000)}, "test")
    assert len(many.value.message) < 1 << 19


def test_a_file_of_an_editor_that_marks_its_beginning_is_read(tmp_path):
    file = tmp_path / "broker.properties"
    file.write_bytes(b"\xef\xbb\xbfnode.id=1\r\nlog.dirs=/d\r\n")
    assert load_properties(file) == {"node.id": "1", "log.dirs": "/d"}


@pytest.mark.parametrize("principal", ["user:admin", "Group:x", "User:*", "User:", "admin"])
def test_a_super_user_that_nobody_can_be_is_refused(principal):
    with pytest.raises(ReplogError, match="is no principal such as User:admin"):
        BrokerConfig.parse({"node.id": 1, "log.dirs": "/d", "super.users": f"User:a;{principal}"}, "test")


@pytest.mark.parametrize(
    "address",
    [
        "a..b:9",
        "a b:9",
        "[::1:29881",
        "::1:29881",
        "http//127.0.0.1:29881",
        "a\x00b:1",
        "a\nb:1",
        "a\u202eb:1",
        ".:1",
        "a" * 64 + ".b:1",
        "[127.0.0.1]:1",
        "[]:1",
        "-ü:1",
    ],
)
def test_an_address_that_nobody_can_connect_to_is_refused(address):
    """Its broker would be elected, and could not be written to."""
    for name in ("listeners", "advertised.listeners"):
        with pytest.raises(ReplogError, match=name):
            BrokerConfig.parse({"node.id": 1, "log.dirs": "/d", name: address}, "test")
    with pytest.raises(ReplogError, match=r"advertised\.listeners"):
        ControllerConfig.parse({"metadata.log.dir": "/d", "advertised.listeners": address}, "test")


@pytest.mark.parametrize("address", ["broker_1.example.net.:9092", "127.0.0.1:0", "[::1]:9092", "a-b:1", "7:1"])
def test_an_address_that_may_be_one_is_taken(address):
    assert BrokerConfig.parse({"node.id": 1, "log.dirs": "/d", "listeners": address}, "test").listeners == address


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"fetch.max.bytes": "0"}, "fetch.max.bytes='0': give a whole number from 1 to"),
        (
            {"replica.fetch.wait.max.ms": "30001"},
            "replica.fetch.wait.max.ms=30001 is more than replica.lag.time.max.ms=30000",
        ),
    ],
)
def test_a_broker_that_could_not_serve_or_stay_in_sync_is_refused(settings, words):
    with pytest.raises(ReplogError, match=words):
        BrokerConfig.parse({"node.id": 1, "log.dirs": "/d"} | settings, "test")


def test_a_directory_without_a_name_is_refused_and_a_file_without_one_is_none():
    with pytest.raises(ReplogError, match=r"metadata\.log\.dir='': a directory has no name"):
        ControllerConfig.parse({"metadata.log.dir": ""}, "test")
    config = ControllerConfig.parse({"metadata.log.dir": "/d", "log.file": "", "ssl.keystore.location": ""}, "test")
    assert (config.log_file, config.ssl_keystore_location) == (None, None)


def test_each_setting_that_is_a_path_counts_from_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    models = (BrokerConfig, ControllerConfig)
    assert {
        str(field.alias) for model in models for field in model.model_fields.values() if "Path" in str(field.annotation)
    } == PATHS
    file = tmp_path / "x.properties"
    file.write_text("".join(f"{name}=a/b,c\n" for name in PATHS))
    assert load_settings(file) == dict.fromkeys(PATHS, f"{tmp_path}/a/b,c") | {
        "log.dirs": f"{tmp_path}/a/b,{tmp_path}/c"
    }
    file.write_text("".join(f"{name}=/a/b\n" for name in PATHS - {"log.file"}) + "log.file=\n")
    assert load_settings(file) == dict.fromkeys(PATHS, "/a/b") | {"log.file": ""}


def test_a_relative_path_that_would_lead_elsewhere_than_it_did_is_refused(tmp_path, monkeypatch):
    (file := tmp_path / "x.properties").write_text("log.dirs=/d, data\n")
    (tmp_path / "work" / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    with pytest.raises(ReplogError, match=f"log.dirs=data counts from the file, and would be {tmp_path}/data; write"):
        load_settings(file)
    (tmp_path / "data").mkdir()
    assert load_settings(file)["log.dirs"] == f"/d,{tmp_path}/data"
    (tmp_path / "a,b").mkdir()
    with pytest.raises(ReplogError, match="a,b/data; write the whole path"):
        load_settings(file.rename(tmp_path / "a,b" / "x.properties"))


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", "1e3", "1_0", " 1", "\u0664", "\u00b2", "65536", "9" * 5000])
def test_what_is_no_number_in_the_range_is_told_apart_without_an_error(text):
    assert number_in(text, 65535) is None


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("65535", 65535), (str(MAX_LONG), MAX_LONG)])
def test_numbers_are_ascii_digits(text, number):
    assert number_in(text, MAX_LONG) == number


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
        ({"advertised_listeners": "0.0.0.0:1"}, "advertised.listeners=0.0.0.0:1 is not one host's address"),
        ({"advertised_listeners": "224.0.0.1:1"}, "advertised.listeners=224.0.0.1:1 is not one host's address"),
        ({"advertised_listeners": "255.255.255.255:1"}, "is not one host's address"),
        ({"advertised_listeners": "[ff02::1]:1"}, "is not one host's address"),
        ({"listeners": "239.1.2.3:1"}, "no address that others can connect to"),
        ({"advertised_listeners": "[0::0]:1"}, "name this host as others know it"),
        ({"advertised_listeners": "0:1"}, "name this host as others know it"),
        ({"advertised_listeners": "0x0.0:1"}, "name this host as others know it"),
        ({"advertised_listeners": "[::FFFF:0.0.0.0]:1"}, "name this host as others know it"),
        ({"advertised_listeners": "B://h:2"}, "advertised.listeners names 'B', which listeners=127.0.0.1:9092 does"),
        ({"listener_security_protocol_map": "A:SASL_SSL"}, "'A:SASL_SSL' is not NAME:PROTOCOL, with PLAINTEXT or SSL"),
        ({"listeners": "SSL://h:1"}, "listener SSL is for brokers and speaks SSL, and security.protocol=PLAINTEXT"),
    ],
)
def test_what_does_not_fit_together_is_refused_with_its_value(settings, says):
    with pytest.raises(ReplogError) as refused:
        config(**settings)
    assert says in refused.value.message
