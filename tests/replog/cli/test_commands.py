"""The commands on a real cluster, each as a process."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from replog.local_cluster.local_cluster import LocalCluster
from tests.replog.processes.commands import Replog

pytestmark = pytest.mark.processes


@pytest.fixture
def bootstrap(cluster: LocalCluster) -> str:
    return cluster.bootstrap


def _create(replog: Replog, bootstrap: str, topic: str, partitions: int = 1) -> None:
    done = replog("topic", "create", "--bootstrap-server", bootstrap, "--topic", topic, "--partitions", partitions)
    assert done.returncode == 0, done.stderr


def test_a_topic_from_its_creation_to_its_end(replog, bootstrap):
    done = replog("topic", "create", "--bootstrap-server", bootstrap, "--topic", "life", "--partitions", 2,
                  "--replication-factor", 3, "--config", "retention.ms=60000")  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
    listed = replog("topic", "list", "--bootstrap-server", bootstrap, "--format", "json")
    assert "life" in json.loads(listed.stdout)
    described = replog("topic", "describe", "--bootstrap-server", bootstrap, "--topic", "life", "--format", "json")
    rows = json.loads(described.stdout)
    assert [row["partition"] for row in rows] == [0, 1]
    assert all(sorted(row["isr"]) == [1, 2, 3] and row["leader"] in row["isr"] for row in rows)
    assert all((row["log_start"], row["high_watermark"], row["log_end"]) == (0, 0, 0) for row in rows)
    assert "retention.ms=60000" in described.stderr
    assert replog("topic", "delete", "--bootstrap-server", bootstrap, "--topic", "life").returncode == 0
    gone = replog("topic", "describe", "--bootstrap-server", bootstrap, "--topic", "life")
    assert gone.returncode == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION: topic 'life' is not known" in gone.stderr


def test_settings_of_topics_and_brokers_are_altered_while_they_run(replog, bootstrap):
    _create(replog, bootstrap, "altered")
    on = ("--bootstrap-server", bootstrap)
    replicas, rate = "follower.replication.throttled.replicas", "follower.replication.throttled.rate"
    done = replog("topic", "alter", *on, "--topic", "altered", "--config", "retention.ms=7",
                  "--config", f"{replicas}=*")  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert f"topic altered has {replicas}=* min.insync.replicas=2 retention.ms=7" in done.stderr
    assert replog("topic", "alter", *on, "--topic", "altered", "--delete-config", replicas).returncode == 0
    described = replog("topic", "describe", *on, "--topic", "altered", "--format", "json")
    assert "min.insync.replicas=2 retention.ms=7\n" in described.stderr
    wrong = replog("topic", "alter", *on, "--topic", "altered", "--config", "retention.ms=soon")
    assert (wrong.returncode, "INVALID_CONFIG: topic altered: retention.ms='soon'" in wrong.stderr) == (2, True)

    assert replog("broker-config", *on, "--broker", 2, "--config", f"{rate}=1000").returncode == 0
    shown = replog("broker-config", *on, "--broker", 2)
    assert f"broker 2 has {rate}=1000" in shown.stderr
    back = replog("broker-config", *on, "--broker", 2, "--delete-config", rate)
    assert "broker 2 has no settings of its own" in back.stderr
    assert "broker 9 is not registered" in replog("broker-config", *on, "--broker", 9).stderr


def test_the_bootstrap_server_may_come_from_the_environment_or_the_local_cluster(replog, cluster):
    for environment in (
        {"REPLOG_BOOTSTRAP_SERVER": cluster.bootstrap},
        {"REPLOG_CLUSTER_DIRECTORY": str(cluster.directory)},
    ):
        done = replog("topic", "list", environment=environment)
        assert done.returncode == 0, done.stderr


def test_lines_go_in_and_come_out_in_order(replog, bootstrap):
    _create(replog, bootstrap, "lines")
    text = "".join(f"line {n}\n" for n in range(20_000)) + "no newline at the end"
    done = replog("produce", "--bootstrap-server", bootstrap, "--topic", "lines", stdin=text)
    assert (done.returncode, done.stdout) == (0, "")
    assert "20001 acknowledged, 0 failed" in done.stderr
    back = replog("consume", "--bootstrap-server", bootstrap, "--topic", "lines", "--from-beginning",
                  "--max-messages", 20_001)  # fmt: skip
    assert back.stdout == text + "\n"
    assert back.stderr == "20001 records\n"


def test_keys_choose_partitions_and_json_shows_everything(replog, bootstrap, tmp_path):
    _create(replog, bootstrap, "users", 3)
    source = tmp_path / "users.txt"
    source.write_bytes(b"".join(b"user%d=value=%d\n" % (n % 5, n) for n in range(50)))
    done = replog("produce", "--bootstrap-server", bootstrap, "--topic", "users", "--file", source,
                  "--key-separator", "=", "--compression", "gzip")  # fmt: skip
    assert done.returncode == 0, done.stderr
    back = replog("consume", "--bootstrap-server", bootstrap, "--topic", "users", "--from-beginning",
                  "--max-messages", 50, "--format", "json")  # fmt: skip
    records = [json.loads(line) for line in back.stdout.splitlines()]
    assert sorted(record["value"] for record in records) == sorted(f"value={n}" for n in range(50))
    partition_of = {(record["key"], record["partition"]) for record in records}
    assert len(partition_of) == 5, "each key is in one partition"


def test_a_value_that_is_the_null_marker_is_none(replog, bootstrap):
    replog("topic", "create", "--topic", "nothing", "--partitions", 1, "--bootstrap-server", bootstrap)
    flags = ("--topic", "nothing", "--bootstrap-server", bootstrap)
    done = replog("produce", *flags, "--key-separator", ":", "--null-marker", "-", stdin="a:1\na:-\na:--\n")
    assert done.returncode == 0, done.stderr
    done = replog("consume", *flags, "--from-beginning", "--max-messages", 3, "--format", "json")
    assert [json.loads(line)["value"] for line in done.stdout.splitlines()] == ["1", None, "--"]


def test_reading_from_an_offset_and_as_key_value(replog, bootstrap):
    _create(replog, bootstrap, "offsets")
    replog("produce", "--bootstrap-server", bootstrap, "--topic", "offsets", "--key-separator", ":",
           stdin="a:0\nb:1\nc:2\n")  # fmt: skip
    back = replog("consume", "--bootstrap-server", bootstrap, "--topic", "offsets", "--partition", 0, "--offset", 1,
                  "--max-messages", 2, "--format", "key:value")  # fmt: skip
    assert back.stdout == "b:1\nc:2\n"
    nothing = replog("consume", "--bootstrap-server", bootstrap, "--topic", "offsets", "--partition", 0, "--offset", 3,
                     "--timeout-ms", 500)  # fmt: skip
    assert (nothing.returncode, nothing.stdout) == (0, ""), nothing.stderr


def test_bytes_that_are_no_text_survive_as_base64(replog, bootstrap, tmp_path):
    _create(replog, bootstrap, "bytes")
    source = tmp_path / "raw"
    source.write_bytes(b"\xff\xfe\n")
    replog("produce", "--bootstrap-server", bootstrap, "--topic", "bytes", "--file", source)
    back = replog("consume", "--bootstrap-server", bootstrap, "--topic", "bytes", "--from-beginning",
                  "--max-messages", 1, "--format", "json")  # fmt: skip
    assert json.loads(back.stdout)["value"] == {"base64": "//4="}


def test_consume_follows_the_log_until_interrupted(cluster, replog):
    _create(replog, cluster.bootstrap, "follow")
    command = [sys.executable, "-m", "replog.cli", "consume", "--bootstrap-server", cluster.bootstrap]
    with subprocess.Popen(
        [*command, "--topic", "follow", "--from-beginning"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for word in ("one", "two"):
            replog("produce", "--bootstrap-server", cluster.bootstrap, "--topic", "follow", stdin=f"{word}\n")
            assert process.stdout.readline() == f"{word}\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "2 records\n"


def test_log_dump_shows_batches_records_indexes_and_epochs(replog, cluster):
    _create(replog, cluster.bootstrap, "dumped")
    lines = "".join(f"value {n}\n" for n in range(3000))
    replog("produce", "--bootstrap-server", cluster.bootstrap, "--topic", "dumped", "--batch-size", 2000, stdin=lines)
    cluster.wait_for_full_isr("dumped")
    directory = cluster.data_directory(1) / "dumped-0"
    deadline = time.monotonic() + 60
    while True:
        done = replog("log", "dump", "--deep", "--format", "json", directory / f"{0:020d}.log")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        values = [row["value"] for row in rows if row["kind"] == "record"]
        if len(values) == 3000 or time.monotonic() > deadline:
            break
    assert done.returncode == 0, done.stderr
    assert values == lines.splitlines()
    batches = [row for row in rows if row["kind"] == "batch"]
    assert batches[0]["baseOffset"] == 0
    assert batches[-1]["lastOffset"] == 2999
    assert all(batch["isValid"] for batch in batches)
    epochs = directory / "leader-epoch-checkpoint"
    while not epochs.exists():  # a follower saves it soon after its first batch (divergence 31)
        assert time.monotonic() < deadline
        time.sleep(0.01)
    others = replog("log", "dump", directory / f"{0:020d}.index", directory / f"{0:020d}.digest", epochs)
    assert others.returncode == 0, others.stderr
    assert "epoch: 0 start_offset: 0" in others.stdout


def test_log_dump_shows_damage_and_says_so_by_its_status(replog, cluster, tmp_path):
    _create(replog, cluster.bootstrap, "damaged")
    replog("produce", "--bootstrap-server", cluster.bootstrap, "--topic", "damaged", stdin="value\n")
    cluster.wait_for_full_isr("damaged")
    leader = next(t for t in cluster.metadata().topics if t.topic == "damaged").partitions[0].leader
    content = bytearray((cluster.data_directory(leader) / "damaged-0" / f"{0:020d}.log").read_bytes())
    content[-3] ^= 1
    copy = tmp_path / f"{0:020d}.log"
    copy.write_bytes(bytes(content) + b"\0" * 5)
    done = replog("log", "dump", copy)
    assert done.returncode == 1
    assert "isValid: False" in done.stdout
    assert "DAMAGE position: " in done.stdout
    assert replog("log", "dump", tmp_path / "other.txt").returncode == 2


def test_cluster_commands_from_up_to_down(replog, tmp_path):
    here = ("--directory", tmp_path / "c")
    up = replog("cluster", "up", "--brokers", 1, *here)
    try:
        assert up.returncode == 0, up.stderr
        assert up.stdout.strip().count("127.0.0.1:") == 1
        status = replog("cluster", "status", "--format", "json", *here)
        assert status.returncode == 0
        assert [row["state"] for row in json.loads(status.stdout)] == ["running", "running"]
        assert replog("cluster", "pause", 1, *here).returncode == 0
        paused = replog("cluster", "status", *here)
        assert paused.returncode == 1
        assert "paused" in paused.stdout
        assert replog("cluster", "resume", 1, *here).returncode == 0
        assert replog("cluster", "kill", 1, *here).returncode == 0
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
        deadline = time.monotonic() + 120
        state = directory / "cluster" / "cluster.json"
        while not (state.exists() and '"broker-3"' in state.read_text() and _pids(state)[-1]):
            assert demo.poll() is None, demo.stderr.read() if demo.stderr else ""
            assert time.monotonic() < deadline
            time.sleep(0.05)
        pids = _pids(state)
        demo.send_signal(signal.SIGINT)
        _, errors = demo.communicate(timeout=120)
    assert demo.returncode == 130, errors
    assert len(pids) == 4
    assert not [pid for pid in pids if pid and os.path.exists(f"/proc/{pid}")]


def _pids(state: Path) -> list[int | None]:
    content = json.loads(state.read_text())
    return [member["pid"] for member in (content["controller"], *content["brokers"])]
