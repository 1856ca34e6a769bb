"""Options that commands share."""

import pytest

from replog.cli.options import bootstrap_server, name_values
from replog.errors import ReplogError
from replog.local_cluster.cluster_file import ClusterFile, LocalMember


def test_a_setting_without_a_value_and_one_that_is_set_twice_are_refused_as_in_a_file():
    assert name_values(["a=1", "b = 2 "], "--config") == {"a": "1", "b": "2"}
    with pytest.raises(ReplogError, match="--config 'a' is not name=value"):
        name_values(["a"], "--config")
    with pytest.raises(ReplogError, match="--config a is set twice"):
        name_values(["a=1", "b=1", " a =2"], "--config")


def test_a_local_cluster_whose_processes_are_gone_is_named_as_such(monkeypatch, tmp_path):
    monkeypatch.setenv("REPLOG_CLUSTER_DIRECTORY", str(tmp_path))
    members = [LocalMember(name="controller", node_id=0, port=1000), LocalMember(name="broker-1", node_id=1, port=1001)]
    ClusterFile(controller=members[0], brokers=members[1:]).save(tmp_path)
    with pytest.raises(ReplogError, match=f"no broker of the local cluster in {tmp_path} runs; start it: replog cl"):
        bootstrap_server(None)


def test_without_brokers_and_without_a_cluster_the_ways_out_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("REPLOG_CLUSTER_DIRECTORY", str(tmp_path))
    with pytest.raises(ReplogError, match=r"--bootstrap-server HOST:PORT.*replog cluster up"):
        bootstrap_server(None)
    assert bootstrap_server("h:1") == "h:1"


def test_a_user_without_a_home_directory_is_told_what_to_set(monkeypatch):
    for variable in ("REPLOG_CLUSTER_DIRECTORY", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)

    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", nobody)
    with pytest.raises(ReplogError, match=r"no home directory; set XDG_DATA_HOME or HOME .* --bootstrap-server"):
        bootstrap_server(None)
