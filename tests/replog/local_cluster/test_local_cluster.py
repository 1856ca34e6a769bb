"""A local cluster of real processes: up, down, crash, restart, pause, and starts that fail."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from replog.client import SyncAdmin
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.cluster_file import MemberStatus, locked
from replog.local_cluster.local_cluster import LocalCluster
from replog.local_cluster.processes import ProcessState, send_signal
from replog.log.files.opening import write_atomically
from tests.replog.waiting import until

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """It is up when a test begins and when it ends."""
    with LocalCluster(tmp_path_factory.mktemp("one"), brokers=1) as running:
        yield running


def _status(cluster: LocalCluster, name: str) -> MemberStatus:
    return next(member for member in cluster.status() if member.name == name)


def test_all_members_run_and_serve_after_up(cluster):
    status = cluster.status()
    assert [member.name for member in status] == ["controller", "broker-1", "broker-2", "broker-3"]
    assert [member.state for member in status] == ["running"] * 4
    assert len({member.pid for member in status}) == 4
    assert all(os.getsid(member.pid) == member.pid for member in status if member.pid)


def test_up_again_starts_nothing_anew(cluster):
    before = cluster.state
    LocalCluster(cluster.directory).up()
    assert cluster.state == before


def test_a_killed_broker_comes_back_on_its_port_and_data_and_joins_every_isr(cluster):
    with SyncAdmin(cluster.bootstrap) as admin:
        admin.create_topic("joins", partitions=4, replication_factor=3)
    cluster.wait_for_full_isr("joins")
    before = cluster.state.broker(2)
    cluster.kill(2)
    assert _status(cluster, "broker-2").state == "stopped"
    with pytest.raises(ReplogError, match="broker-2 is not running") as caught:
        cluster.kill(2)
    assert caught.value.code is ErrorCode.BROKER_NOT_AVAILABLE
    cluster.up()
    after = cluster.state.broker(2)
    assert after.address == before.address
    assert after.pid != before.pid
    cluster.wait_for_full_isr("joins")
    assert _status(cluster, "broker-2").replicas == 4


def test_a_paused_broker_is_fenced_and_comes_back_when_resumed(cluster):
    cluster.pause(3)
    assert _status(cluster, "broker-3").state == "paused"
    until(
        lambda: any(broker.broker_id == 3 and broker.fenced for broker in cluster.metadata().brokers),
        "a broker that says nothing is fenced",
    )
    cluster.resume(3)
    until(lambda: _status(cluster, "broker-3").state == "running", lambda: _status(cluster, "broker-3"))
    cluster.wait_for_full_isr()


def test_only_one_command_at_a_time_changes_a_cluster(cluster):
    with locked(cluster.directory), pytest.raises(ReplogError, match="another command is changing the cluster"):
        LocalCluster(cluster.directory).up()


def test_fewer_brokers_than_the_directory_has_are_refused(cluster):
    with pytest.raises(ReplogError, match="holds a cluster of 3 brokers, more than 2"):
        LocalCluster(cluster.directory, brokers=2).up()


def test_down_stops_everything_and_up_brings_the_same_cluster_back_on_a_port_that_is_free(one_broker):
    processes, before = [member.process for member in one_broker.state.members], one_broker.state.broker(1)
    with SyncAdmin(one_broker.bootstrap) as admin:
        admin.create_topic("kept")
    assert one_broker.down() == []
    assert all(member.state is ProcessState.STOPPED for member in one_broker.state.members)
    assert not any(process and send_signal(process, signal.SIGCONT) for process in processes)
    assert {member.state for member in one_broker.status()} == {"stopped"}
    with socket.create_server(("127.0.0.1", before.port)):
        one_broker.up()
    assert one_broker.state.broker(1).port != before.port
    with SyncAdmin(one_broker.bootstrap) as admin:
        assert admin.list_topics() == ["kept"]


def test_settings_made_by_hand_stay_and_directories_of_a_copied_cluster_do_not(one_broker, tmp_path):
    here, copied = one_broker.directory, tmp_path / "copied"
    one_broker.down()
    file = here / "broker-1" / "broker.properties"
    data, second = here / "broker-1" / "data", tmp_path / "second"
    text = re.sub(r"metrics\.listener=.*", "metrics.listener=anywhere", file.read_text())  # an address is found for it
    file.write_text(text.replace(f"log.dirs={data}", f"log.dirs={data},{second}") + "broker.rack=r9\n")
    shutil.copytree(here, copied)
    one_broker.up()
    with SyncAdmin(one_broker.bootstrap) as admin:
        assert [directory.log_dir for directory in admin.describe_log_dirs([1])[1]] == [str(data), str(second)]
        assert [broker.rack for broker in admin.describe_cluster().brokers] == ["r9"]
    with LocalCluster(copied) as cluster, SyncAdmin(cluster.bootstrap) as admin:
        assert [directory.log_dir for directory in admin.describe_log_dirs([1])[1]] == [
            str(copied / "broker-1" / "data")
        ]


def test_a_broker_that_does_not_stop_in_time_is_killed_and_named(one_broker):
    """A deadline that nothing can meet: it is over at the first look."""
    assert one_broker.down(timeout_s=1e-9) == ["broker-1", "controller"]
    assert {member.state for member in one_broker.status()} == {"stopped"}
    one_broker.up()


@pytest.mark.parametrize("name", ["a,b", "a\nb", "a\x85b", "a\udcffb"])
def test_a_directory_that_settings_cannot_name_is_refused_before_anything_is_made(tmp_path, name):
    directory = tmp_path / name
    with pytest.raises(ReplogError, match="cannot hold a cluster: it has a comma, or what cannot be printed"):
        LocalCluster(directory).up()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("none", ["brokers", "controllers"])
def test_a_cluster_of_none_is_refused(tmp_path, none):
    with pytest.raises(ReplogError, match=f"{none}=0: choose from 1 to"):
        LocalCluster(tmp_path, **{none: 0}).up()


def test_a_start_that_is_ended_stops_what_it_has_started(tmp_path):
    command = [sys.executable, "-m", "replog.cli", "cluster", "up", "--brokers", "1", "--directory", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as starting:
        assert starting.stderr is not None
        while "starting broker-1" not in (line := starting.stderr.readline()):
            assert line, "it ended before"
        starting.send_signal(signal.SIGHUP)
        while "stopping" not in (line := starting.stderr.readline()):
            assert line, "it stops nothing"
        starting.send_signal(signal.SIGTERM)
        starting.communicate(timeout=120)
    assert starting.returncode == 128 + signal.SIGHUP
    assert {member.state for member in LocalCluster(tmp_path).state.members} == {ProcessState.STOPPED}


def test_signals_that_operators_of_kafka_send_end_no_process(one_broker):
    members = [one_broker.state.controller, one_broker.state.broker(1)]
    for member in members:
        assert member.process is not None
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGQUIT):
            send_signal(member.process, number)
        log = one_broker.log_file(member)
        until(lambda log=log: "Current thread" in log.read_text(), "the stacks of its threads are in its output")
        assert _status(one_broker, member.name).state == "running"


SAID = "SIGHUP: settings read again"


def test_after_sighup_processes_go_by_the_level_and_format_that_their_files_have_now(one_broker):
    for member in one_broker.state.members:
        path = one_broker.home(member) / f"{member.kind}.properties"
        text = path.read_text()

        def hang_up(more: str, path=path, text=text, member=member) -> None:
            write_atomically(path, (text + more).encode())
            os.kill(member.process.pid, signal.SIGHUP)

        def told(member=member) -> str:
            return one_broker.log_file(member).read_text()

        hang_up("log.format=console\n")
        until(lambda: SAID in told(), told)
        assert '"level": "warning"' not in told().splitlines()[-1], told()
        hang_up("log.level=nonsense\n")
        until(lambda: "the settings stay as they are" in told(), told)
        assert "log.level='nonsense'" in told()
        hang_up("log.level=ERROR\n")
        hang_up("log.level=INFO\n")
        until(lambda: told().count(SAID) >= 2, told)
    assert [status.state for status in one_broker.status()] == ["running", "running"]


def test_a_process_that_ends_at_its_start_is_told_with_the_end_of_its_log(tmp_path):
    cluster = LocalCluster(tmp_path, brokers=1, broker_settings={"no.such.setting": "1"})
    with pytest.raises(ReplogError, match="broker-1 ended") as caught:
        cluster.up()
    assert "no.such.setting is not a setting here" in caught.value.message
    assert all(member.state is ProcessState.STOPPED for member in cluster.state.members)


def test_a_controller_that_ends_while_brokers_wait_for_it_is_named_at_once(tmp_path):
    """Brokers waited a minute, and then one of them was named."""
    cluster = LocalCluster(tmp_path, brokers=1)

    def progress(told: str) -> None:
        if told.startswith("starting broker"):
            send_signal(cluster.state.member("controller").process, signal.SIGKILL)

    with pytest.raises(ReplogError, match=": controller ended"):
        cluster.up(progress=progress)


DEMO = """
import asyncio, os
from replog.command.ending import run
from replog.demo.traffic import produce_through_a_crash
async def never(_): await asyncio.Event().wait()
rows = [b",,,,,,,,,AA,%d" % number for number in range(1_000_000)]
tell = lambda acknowledged: print(acknowledged or "", flush=True)
sent = produce_through_a_crash(os.environ["REPLOG_BOOTSTRAP_SERVER"], "demo", rows, 1, never, never, tell)
raise SystemExit(run(lambda: asyncio.run(sent)))
"""
WAITING = {
    "produce": ["-m", "replog.cli", "produce", "--topic", "t"],
    "consume": ["-m", "replog.cli", "consume", "--topic", "t", "--from-beginning"],
    "console": ["-m", "replog.cli", "console", "--listener", "127.0.0.1:0"],
    "demo": ["-c", DEMO],
}


def test_ctrl_c_ends_what_waits_for_a_broker_that_is_dead(one_broker):
    """Within two seconds where nothing else runs; a delivery of `produce` may take two minutes."""
    with SyncAdmin(one_broker.bootstrap) as admin:
        for topic in ("t", "demo"):
            admin.create_topic(topic, partitions=1, replication_factor=1)
    environment = {**os.environ, "REPLOG_BOOTSTRAP_SERVER": one_broker.bootstrap}
    if one_broker.tls is not None:
        environment["REPLOG_CLIENT_CONFIG"] = str(one_broker.client_config)
    pipe = subprocess.PIPE
    with ExitStack() as stack:
        begun = {
            name: stack.enter_context(
                subprocess.Popen(
                    [sys.executable, *words], stdin=pipe, stdout=pipe, stderr=pipe, env=environment, text=True
                )
            )
            for name, words in WAITING.items()
        }
        for process in begun.values():
            stack.callback(process.kill)
        producer = begun["produce"].stdin
        producer.write("first\n")
        producer.flush()
        assert begun["consume"].stdout.readline() == "first\n"
        assert "http" in begun["console"].stderr.readline()
        while not begun["demo"].stdout.readline().strip():
            assert begun["demo"].poll() is None
        one_broker.kill(1)
        producer.write("second\n")
        producer.flush()
        for name, process in begun.items():
            process.send_signal(signal.SIGINT)
            process.wait(100)
            assert process.returncode == (0 if name == "console" else 130), name


def test_a_broker_added_to_a_directory_joins(one_broker):
    LocalCluster(one_broker.directory, brokers=2).up()
    assert [member.state for member in one_broker.status()] == ["running"] * 3


def test_one_broker_that_cannot_start_keeps_no_other_and_one_that_left_stays_out(replog, tmp_path):
    cluster, here = LocalCluster(tmp_path, brokers=3), {"REPLOG_CLUSTER_DIRECTORY": str(tmp_path)}
    with cluster:
        cluster.kill(2)
        identity = cluster.data_directory(2) / "meta.properties"
        before = identity.read_text()
        identity.write_text(before.replace("node.id=2", "node.id=7"))
        started = replog("cluster", "up", environment=here)
        assert started.returncode == 1, started.stderr
        assert "broker-2 did not start: INVALID_CONFIG" in started.stderr
        assert f"when that is mended: replog cluster up --directory {tmp_path}" in started.stderr
        assert [_status(cluster, f"broker-{number}").state for number in (1, 2, 3)] == ["running", "stopped", "running"]
        status = replog("cluster", "status", environment=here)
        assert (status.returncode, "broker-2 ended: INVALID_CONFIG" in status.stderr) == (1, True), status
        identity.write_text(before)

        forgotten = replog("broker", "forget", 2, environment=here)
        assert forgotten.returncode == 0, forgotten.stderr
        again = replog("cluster", "up", environment=here)
        assert again.returncode == 0, again.stderr
        assert [member.name for member in cluster.status()] == ["controller", "broker-1", "broker-3"]
        LocalCluster(tmp_path, brokers=3).up()
        assert [broker.node_id for broker in cluster.state.brokers] == [1, 3, 4], "its number is not given again"


def test_a_directory_without_a_cluster_says_how_to_start_one(tmp_path):
    for call in (LocalCluster(tmp_path).down, LocalCluster(tmp_path).status, lambda: LocalCluster(tmp_path).kill(1)):
        with pytest.raises(ReplogError, match="replog cluster up --directory"):
            call()
