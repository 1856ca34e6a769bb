"""Options that commands share."""

import pytest

from replog.cli.options import bootstrap_server, name_values
from replog.errors import ReplogError


def test_a_setting_without_a_value_is_refused():
    assert name_values(["a=1", "b = 2 "], "--config") == {"a": "1", "b": "2"}
    with pytest.raises(ReplogError, match="--config 'a' is not name=value"):
        name_values(["a"], "--config")


def test_without_brokers_and_without_a_cluster_the_ways_out_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("REPLOG_CLUSTER_DIRECTORY", str(tmp_path))
    with pytest.raises(ReplogError, match=r"--bootstrap-server HOST:PORT.*replog cluster up"):
        bootstrap_server(None)
    assert bootstrap_server("h:1") == "h:1"
