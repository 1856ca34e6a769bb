"""The commands on a real cluster, each as a process."""

import json
import os
import pty
import signal
import subprocess
import sys
from array import array
from fcntl import F_GETPIPE_SZ, fcntl, ioctl
from pathlib import Path
from termios import FIONREAD

import pytest

from tests.replog.waiting import until

pytestmark = pytest.mark.processes


def test_a_topic_from_its_creation_to_its_end(ask, done):
    created = done("topic create --topic life --partitions 2 --replication-factor 3 --config retention.ms=60000")
    assert created.stdout == ""
    assert "life exists already" in done("topic create --topic life --if-not-exists").stderr
    assert "life" in json.loads(done("topic list --format json").stdout)
    described = done("topic describe --topic life --format json")
    rows = json.loads(described.stdout)
    assert [row["partition"] for row in rows] == [0, 1]
    assert all(sorted(row["isr"]) == [1, 2, 3] and row["leader"] in row["isr"] for row in rows)
    assert all((row["log_start"], row["high_watermark"], row["log_end"]) == (0, 0, 0) for row in rows)
    assert "retention.ms=60000" in described.stderr
    everything = json.loads(done("topic describe --format json").stdout)
    assert [row["partition"] for row in everything if row["topic"] == "life"] == [0, 1]
    assert json.loads(done("topic describe --topic life --unavailable-partitions --format json").stdout) == []
    assert json.loads(done("cluster describe --format json").stdout)["partitions"]["without_leader"] == 0
    done("topic delete --topic life")
    gone = ask("topic describe --topic life")
    assert gone.returncode == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION: topic 'life' is not known" in gone.stderr


def test_settings_of_topics_and_brokers_are_altered_while_they_run(ask, done):
    done("topic create --topic altered --partitions 1")
    replicas, rate = "follower.replication.throttled.replicas", "follower.replication.throttled.rate"
    altered = done(f"topic alter --topic altered --config retention.ms=7 --config '{replicas}=*'")
    assert altered.stdout == ""
    assert f"topic altered has {replicas}=* min.insync.replicas=2 retention.ms=7" in altered.stderr
    for command in ("cluster describe", "topic describe --topic altered", "partition list-reassignments"):
        said = ask(command)
        assert "throttled by hand: replicas of topics altered" in said.stdout + said.stderr, command
    done(f"topic alter --topic altered --delete-config {replicas}")
    assert "topic altered has 3 partitions\n" in done("topic alter --topic altered --partitions 3").stderr
    fewer = ask("topic alter --topic altered --partitions 2")
    assert (fewer.returncode, "INVALID_PARTITIONS: topic altered has 3" in fewer.stderr) == (2, True)
    described = done("topic describe --topic altered --format json")
    assert "min.insync.replicas=2 retention.ms=7\n" in described.stderr
    wrong = ask("topic alter --topic altered --config retention.ms=soon")
    assert (wrong.returncode, "INVALID_CONFIG: topic altered: retention.ms='soon'" in wrong.stderr) == (2, True)

    done(f"broker-config --broker 2 --config {rate}=1000")
    assert f"broker 2 has {rate}=1000" in done("broker-config --broker 2").stderr
    back = done(f"broker-config --broker 2 --delete-config {rate}")
    assert "broker 2 has no settings of its own" in back.stderr
    assert "broker 9 is not registered" in ask("broker-config --broker 9").stderr


def test_a_broker_is_forgotten_only_if_it_is_stopped_and_has_no_replicas(ask):
    for broker, words in (
        (2, "cannot forget broker 2: it "),  # has replicas of other tests; or it is unfenced
        (9, "broker 9 is not registered"),
    ):
        refused = ask(f"broker forget {broker}")
        assert refused.returncode != 0
        assert words in refused.stderr
    assert "takes neither" in ask("broker --override node.id=1 forget 9").stderr


def test_the_bootstrap_server_may_come_from_the_environment_or_the_local_cluster(replog, cluster):
    for environment in (
        {"REPLOG_BOOTSTRAP_SERVER": cluster.bootstrap},
        {"REPLOG_CLUSTER_DIRECTORY": str(cluster.directory)},
    ):
        listed = replog("topic", "list", environment=environment)
        assert listed.returncode == 0, listed.stderr


def test_lines_go_in_and_come_out_in_order(done):
    done("topic create --topic lines --partitions 1")
    text = "".join(f"line {n}\n" for n in range(20_000)) + "no newline at the end"
    produced = done("produce --topic lines", stdin=text)
    assert produced.stdout == ""
    assert "20001 acknowledged, 0 failed" in produced.stderr
    back = done("consume --topic lines --from-beginning --max-messages 20001")
    assert back.stdout == text + "\n"
    assert back.stderr == "20001 records\n"


def test_keys_choose_partitions_and_json_shows_everything_also_nulls_and_bytes_that_are_no_text(done, tmp_path):
    done("topic create --topic users --partitions 3")
    source = tmp_path / "users.txt"
    source.write_bytes(b"".join(b"user%d=value=%d\n" % (n % 5, n) for n in range(50)))
    done("produce --topic users --key-separator = --compression gzip --file", source)
    back = done("consume --topic users --from-beginning --max-messages 50 --format json")
    records = [json.loads(line) for line in back.stdout.splitlines()]
    assert sorted(record["value"] for record in records) == sorted(f"value={n}" for n in range(50))
    partition_of = {(record["key"], record["partition"]) for record in records}
    assert len(partition_of) == 5, "each key is in one partition"
    done("topic create --topic others --partitions 1")
    source.write_bytes(b"a:-\na:--\na:\xff\xfe\n")
    done("produce --topic others --key-separator : --null-marker - --file", source)
    back = done("consume --topic others --from-beginning --max-messages 3 --format json")
    assert [json.loads(line)["value"] for line in back.stdout.splitlines()] == [None, "--", {"base64": "//4="}]


def test_reading_from_an_offset_and_as_key_value(ask, done):
    done("topic create --topic offsets --partitions 1")
    done("produce --topic offsets --key-separator :", stdin="a:0\nb:1\nc:2\n")
    back = done("consume --topic offsets --partition 0 --offset 1 --max-messages 2 --format key:value")
    assert back.stdout == "b:1\nc:2\n"
    assert done("consume --topic offsets --partition 0 --offset 3 --timeout-ms 500").stdout == ""
    beyond = ask("consume --topic offsets --partition 0 --offset 9")
    assert beyond.stderr.endswith("as far as it is committed, at 3; use --offset to go on\n")


def test_who_types_lines_is_told_how_to_end_and_who_wanted_a_few_is_told_no_count(cluster, done):
    done("topic create --topic typed --partitions 1")
    master, slave = pty.openpty()
    produce = [sys.executable, "-m", "replog.cli", "produce", "--topic", "typed", "--bootstrap-server"]
    with subprocess.Popen([*produce, cluster.bootstrap], stdin=slave, stderr=subprocess.PIPE, text=True) as typing:
        os.write(master, b"a line\n\x04")
        said = typing.communicate(timeout=60)[1]
    assert said.startswith("each line is a record; Ctrl-D ends\n1 acknowledged"), said
    done("produce --topic typed", stdin="a line\n" * 100_000)
    consume = f"{sys.executable} -m replog.cli consume --topic typed --from-beginning --bootstrap-server"
    few = subprocess.run(f"{consume} {cluster.bootstrap} | head -1", shell=True, capture_output=True, text=True)
    assert (few.stdout, few.stderr) == ("a line\n", "")


def test_consume_follows_the_log_until_interrupted(cluster, done):
    done("topic create --topic follow --partitions 1")
    command = [sys.executable, "-m", "replog.cli", "consume", "--bootstrap-server", cluster.bootstrap]
    with subprocess.Popen(
        [*command, "--topic", "follow", "--from-beginning"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for word in ("one", "two"):
            done("produce --topic follow", stdin=f"{word}\n")
            assert process.stdout.readline() == f"{word}\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert errors == "2 records\n"


def test_consume_ends_at_the_first_ctrl_c_though_nobody_reads_what_it_prints(cluster, done):
    """asyncio only has its loop end, which waited for the pipe."""
    done("topic create --topic unread --partitions 1")
    done("produce --topic unread", stdin="a line\n" * 100_000)
    command = [sys.executable, "-m", "replog.cli", "consume", "--topic", "unread", "--from-beginning"]
    command += ["--bootstrap-server", cluster.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        size, held = fcntl(process.stdout, F_GETPIPE_SZ), array("i", [0])
        until(lambda: not ioctl(process.stdout, FIONREAD, held) and held[0] == size, "full")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


@pytest.mark.plaintext("`cluster up` makes a cluster without certificates")
def test_cluster_commands_from_up_to_down(replog, tmp_path):
    here = ("--directory", tmp_path / "c")
    up = replog("cluster", "up", "--brokers", 1, *here)
    try:
        assert up.returncode == 0, up.stderr
        assert up.stdout.strip().count("127.0.0.1:") == 1
        status = replog("cluster", "status", "--format", "json", *here)
        assert status.returncode == 0
        assert [row["state"] for row in json.loads(status.stdout)] == ["running", "running"]
        address = up.stdout.strip()
        assert replog("health", "--ready", address).returncode == 0
        assert replog("cluster", "pause", 1, *here).returncode == 0
        paused = replog("cluster", "status", *here)
        assert paused.returncode == 1
        assert "paused" in paused.stdout
        assert replog("cluster", "resume", 1, *here).returncode == 0
        assert replog("cluster", "kill", 1, *here).returncode == 0
        gone = replog("health", "--ready", address)
        assert (gone.returncode, gone.stderr) == (1, f"{address} is not ready\n")
        assert replog("cluster", "kill", 1, *here).returncode == 1
        assert replog("cluster", "kill", 9, *here).returncode == 2
    finally:
        down = replog("cluster", "down", *here)
    assert down.returncode == 0, down.stderr


def test_an_interrupted_demo_leaves_no_process_behind(tmp_path):
    directory = tmp_path / "demo"
    with subprocess.Popen(
        [sys.executable, "-m", "replog.cli", "demo", "--directory", str(directory)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        state = directory / "cluster" / "cluster.json"

        def started() -> bool:
            assert demo.poll() is None, demo.stderr.read() if demo.stderr else ""
            return state.exists() and '"broker-3"' in state.read_text() and bool(_pids(state)[-1])

        until(started, "the third broker")
        pids = _pids(state)
        demo.send_signal(signal.SIGINT)
        _, errors = demo.communicate(timeout=120)
    assert demo.returncode == 130, errors
    assert len(pids) == 4
    assert not [pid for pid in pids if pid and os.path.exists(f"/proc/{pid}")]


def _pids(state: Path) -> list[int | None]:
    content = json.loads(state.read_text())
    return [member["pid"] for member in (content["controller"], *content["brokers"])]
