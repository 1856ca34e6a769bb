"""SIGHUP to real processes: they read their settings again, and go on."""

import os
import signal

import pytest

from replog.config.properties import load_properties
from replog.local_cluster.local_cluster import LocalCluster
from replog.log.files.replacing import write_atomically
from tests.replog.waiting import until

pytestmark = pytest.mark.processes

SAID = "SIGHUP: settings read again"


def test_after_sighup_processes_go_by_the_level_and_format_that_their_files_have_now(tmp_path):
    with LocalCluster(tmp_path / "cluster", brokers=1) as cluster:
        for member in cluster.state.members:
            kind = member.name.partition("-")[0]
            path = cluster.directory / member.name / f"{kind}.properties"
            before = load_properties(path)
            text = "".join(f"{name}={value}\n" for name, value in before.items())

            def hang_up(more: str, path=path, text=text, member=member) -> None:
                write_atomically(path, (text + more).encode())
                os.kill(member.process.pid, signal.SIGHUP)

            def told(member=member) -> str:
                return cluster.log_file(member).read_text()

            hang_up("log.format=console\n")
            until(lambda: SAID in told(), told)
            assert '"level": "warning"' not in told().splitlines()[-1], told()
            hang_up("log.level=nonsense\n")
            until(lambda: "the settings stay as they are" in told(), told)
            assert "log.level='nonsense'" in told()
            hang_up("log.level=ERROR\n")
            hang_up("log.level=INFO\n")
            until(lambda: told().count(SAID) >= 2, told)
        assert [status.state for status in cluster.status()] == ["running", "running"]
