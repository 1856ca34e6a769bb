"""How Kafka is fetched, and what is said where it cannot be."""

import pytest

from tests.interop.kafka import NoKafka, fetch_jars

pytestmark = pytest.mark.processes


def test_without_maven_it_is_said_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoKafka, match="mvn is not on PATH"):
        fetch_jars(tmp_path / "jars")


def test_a_download_that_fails_leaves_nothing_behind(kafka, tmp_path, monkeypatch):
    """No proxy listens there, and the local repository is empty."""
    monkeypatch.setenv(
        "MAVEN_OPTS", f"-Dmaven.repo.local={tmp_path / 'repository'} -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"
    )
    with pytest.raises(NoKafka, match="did not fetch Kafka"):
        fetch_jars(tmp_path / "cache" / "jars")
    assert list((tmp_path / "cache").iterdir()) == []
