"""Options that commands share."""

import pytest

from replog.cli.options import bootstrap_server, name_values
from replog.errors import ReplogError
from replog.local_cluster.cluster_file import ClusterFile, LocalMember


def test_a_setting_without_a_value_is_refused():
    assert name_values(["a=1", "b = 2 "], "--config") == {"a": "1", "b": "2"}
    with pytest.raises(ReplogError, match="--config 'a' is not name=value"):
        name_values(["a"], "--config")


def test_a_setting_that_is_set_twice_is_refused_as_in_a_file():
    with pytest.raises(ReplogError, match="--config a is set twice"):
        name_values(["a=1", "b=1", " a =2"], "--config")


@pytest.fixture
def stopped(monkeypatch, tmp_path):
    """A local cluster whose processes are gone."""
    monkeypatch.setenv("REPLOG_CLUSTER_DIRECTORY", str(tmp_path))
    members = [LocalMember(name="controller", node_id=0, port=1000), LocalMember(name="broker-1", node_id=1, port=1001)]
    ClusterFile(controller=members[0], brokers=members[1:]).save(tmp_path)
    return tmp_path


def test_a_stopped_local_cluster_is_named_as_such(stopped):
    with pytest.raises(
        ReplogError, match=f"no broker of the local cluster in {stopped} runs; start it: replog cluster"
    ):
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
