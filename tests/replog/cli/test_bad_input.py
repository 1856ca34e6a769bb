"""Bad input and bad surroundings: each is refused with a message that names thing, value and remedy, by the right
status, without a traceback, and without harm to the cluster."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from replog.client import SyncAdmin
from replog.local_cluster.local_cluster import LocalCluster
from replog.local_cluster.ports import HOST, free_port
from tests.replog.processes.commands import Replog
from tests.replog.secure import broker_certificate

pytestmark = pytest.mark.processes

PROBLEM_FOUND, BAD_USE = 1, 2


@pytest.fixture(scope="module", autouse=True)
def asks_nobody() -> Iterator[subprocess.Popen[str]]:
    """A command that takes the ten seconds until it gives up while the other tests run."""
    with socket.socket() as silent:
        silent.bind((HOST, 0))  # and never listens
        address = f"{HOST}:{silent.getsockname()[1]}"
        command = [sys.executable, "-m", "replog.cli", "topic", "list", "--bootstrap-server", address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            yield process


@pytest.fixture(scope="module")
def there(cluster: LocalCluster) -> None:
    with SyncAdmin(cluster.bootstrap) as admin:
        admin.create_topic("there", partitions=1)


@pytest.fixture
def topic(done: Replog, request: pytest.FixtureRequest) -> str:
    name = f"t{abs(hash(request.node.name))}"
    done(f"topic create --topic {name} --partitions 1")
    return name


NO_TOPICS = [
    ("--replication-factor 4", "INVALID_REPLICATION_FACTOR"),
    ("--partitions 10000000", "INVALID_PARTITIONS"),
    ("--config no.such.setting=1", "no.such.setting"),
    ("--config segment.bytes=-1", "segment.bytes"),
    ("--config segment.bytes", "not name=value"),
    ("--partitions -1", "--partitions"),
    ("--partitions many", "--partitions"),
]
REFUSED = [
    ("topic create --topic there", PROBLEM_FOUND, "TOPIC_ALREADY_EXISTS"),
    ("topic create --topic ../x", BAD_USE, "INVALID_TOPIC_EXCEPTION … characters other than"),
    ("topic create --topic ''", BAD_USE, "INVALID_TOPIC_EXCEPTION … is empty"),
    (
        "consume --topic there --partition 0 --offset 1000",
        PROBLEM_FOUND,
        "offset 1000 of there-0 is outside of its log",
    ),
    ("consume --topic there --partition 0 --offset -1", BAD_USE, "--offset"),
    ("consume --topic there --offset 0", BAD_USE, "--partition"),
    ("consume --topic there --partition 7", PROBLEM_FOUND, "partitions 0 to 0, not 7"),
    ("produce --topic there --partition 7", PROBLEM_FOUND, "partitions 0 to 0, not 7"),
    ("produce --topic there --acks 2", BAD_USE, "--acks"),
    ("produce --topic there --key-separator :", PROBLEM_FOUND, "line 2: INVALID_RECORD: no key separator ':'"),
    *((f"topic create --topic cannot-be {words}", BAD_USE, says) for words, says in NO_TOPICS),
    ("partition elect --election-type preferred", BAD_USE, "elect where?"),
    ("partition elect --election-type dirty --topic t", BAD_USE, "--election-type"),
    ("partition elect --election-type preferred --topic t --all-topic-partitions", BAD_USE, "elect where?"),
    ("partition elect --election-type preferred --topic nope", PROBLEM_FOUND, "UNKNOWN_TOPIC_OR_PARTITION"),
    ("partition elect --election-type unclean --topic there --partition 7", PROBLEM_FOUND, "there-7"),
    ("partition elect --election-type preferred --topic there --partition 7", PROBLEM_FOUND, "there-7"),
    ("partition reassign --topic nope --partition 0 --cancel", PROBLEM_FOUND, "no partition nope-0"),
    ("partition reassign --topic there --partition 5 --replicas 1", PROBLEM_FOUND, "no partition there-5"),
    *(
        (f"partition reassign --topic there --partition 0 {words}", BAD_USE, says)
        for words, says in (
            ("", "either --replicas or --cancel"),
            ("--replicas 1,x", "'x' is no broker id"),
            ("--replicas ''", "'' is no broker id"),
            ("--replicas 1,1", "broker 1 is named twice"),
            ("--replicas 1,9", "broker 9"),
            ("--cancel --throttle 9", "leave --throttle out"),
            (f"--replicas 1 --throttle {1 << 63}", "--throttle"),
        )
    ),
    *(
        (f"{command} --topic {topic}", status, says)
        for command in ("topic describe", "topic delete", "produce", "consume")
        for topic, status, says in (
            ("../x", BAD_USE, "INVALID_TOPIC_EXCEPTION"),
            ("nobody-made-it", PROBLEM_FOUND, "UNKNOWN_TOPIC_OR_PARTITION … nobody-made-it"),
        )
    ),
]


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize(("words", "status", "says"), REFUSED, ids=[words for words, _, _ in REFUSED])
def test_what_cannot_be_done_is_refused_by_name_and_status(ask, words, status, says):
    done = ask(words, stdin="a:1\nno separator\n")
    assert (done.returncode, all(part in done.stderr for part in says.split(" … "))) == (status, True), done


def test_an_oversize_record_is_refused_by_line_and_the_others_go_through(ask, topic):
    done = ask(f"produce --topic {topic}", stdin="small\n" + "x" * (2 << 20) + "\nsmall too\n")
    assert done.returncode == PROBLEM_FOUND
    assert "error: line 2: MESSAGE_TOO_LARGE" in done.stderr
    assert "counted before compression, more than --max-request-size=1048576; raise that" in done.stderr
    assert "2 acknowledged, 1 failed" in done.stderr
    back = ask(f"consume --topic {topic} --from-beginning --max-messages 2")
    assert back.stdout == "small\nsmall too\n"


def test_a_record_that_is_too_large_for_the_topic_is_refused_by_the_broker(ask):
    ask("topic create --topic narrow --config max.message.bytes=1000")
    done = ask("produce --topic narrow", stdin="x" * 2000 + "\n")
    assert done.returncode == PROBLEM_FOUND
    assert "error: line 1: MESSAGE_TOO_LARGE" in done.stderr
    assert "0 acknowledged, 1 failed" in done.stderr


def test_acks_is_all_one_or_zero_and_a_key_separator_not_empty(ask, done, topic):
    for acks in ("all", "1", "0"):
        done(f"produce --topic {topic} --acks {acks}", stdin="x\n")
    assert ask(f"produce --topic {topic} --key-separator ''", stdin="a\n").returncode == BAD_USE


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:99999", ":9092", ""])
def test_an_address_that_is_none_is_bad_use(replog, address):
    done = replog("topic", "list", "--bootstrap-server", address)
    assert done.returncode == BAD_USE, done.stderr
    assert "Traceback" not in done.stderr


def _broker(replog: Replog, cluster: LocalCluster, directory: Path, **settings: object) -> object:
    overrides = {
        "node.id": 77,
        "log.dirs": directory,
        "listeners": f"127.0.0.1:{free_port([])}",
        "controller.listener": cluster.state.controller.address,
        **broker_certificate(cluster, 77),
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    arguments = [word for name, value in overrides.items() for word in ("--override", f"{name}={value}")]
    done = replog("broker", *arguments)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_a_broker_whose_port_is_in_use_says_so(replog, cluster, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = _broker(replog, cluster, tmp_path, listeners=f"127.0.0.1:{port}")
    assert done.returncode == BAD_USE
    assert f"cannot listen on 127.0.0.1:{port}: the port is in use" in done.stderr


@pytest.mark.parametrize(
    ("settings", "status", "says"),
    [
        ({"listeners": "nonsense"}, BAD_USE, "listeners='nonsense'"),
        ({"node_id": "one"}, BAD_USE, "node.id='one'"),
        ({"no_such_setting": 1}, BAD_USE, "no.such.setting is not a setting here"),
        ({"log_dirs": "/dev/null/data"}, PROBLEM_FOUND, "/dev/null/data"),
    ],
)
def test_a_broker_refuses_bad_settings_by_name(replog, cluster, tmp_path, settings, status, says):
    done = _broker(replog, cluster, tmp_path, **settings)
    assert done.returncode == status
    assert says in done.stderr


def test_who_starts_a_process_hears_why_it_ends_though_it_logs_to_a_file(replog, cluster, tmp_path):
    running = cluster.data_directory(1)
    log, taken = tmp_path / "x.log", cluster.state.brokers[0].address
    ended = {
        "is in use by another process": _broker(replog, cluster, running, log_file=log),
        f"cannot listen on {taken}": _broker(replog, cluster, tmp_path, log_file=log, listeners=taken),
        "metadata.sqlite": replog(
            "controller", "--override", f"log.file={log}", "--override", f"metadata.log.dir={tmp_path}"
        ),
    }
    told = [line for line in log.read_text().splitlines() if line.startswith("error: ")]
    assert [done.stderr for done in ended.values()] == [f"{line}\n" for line in told]
    assert all(says in line for says, line in zip(ended, told, strict=True)), told
    assert all(done.returncode in (PROBLEM_FOUND, BAD_USE) for done in ended.values())


@pytest.mark.parametrize(
    "words", ["broker node.id=1 log.dirs={}", "controller metadata.store=etcd metadata.etcd.endpoints=127.0.0.1:1"]
)
def test_an_own_name_that_this_host_does_not_know_is_a_warning(tmp_path, words):
    name, *settings = words.format(tmp_path).split()
    settings += ["listeners=127.0.0.1:0", "advertised.listeners=no-such.invalid:9092"]
    command = [sys.executable, "-m", "replog.cli", name, *(f"--override={setting}" for setting in settings)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        told = next(line for line in process.stderr if "no-such.invalid" in line)
        process.terminate()
    assert (told.count("no-such.invalid:9092 does not resolve on this host"), process.returncode) == (1, 0)


def test_a_broker_that_finds_no_controller_gives_up_after_its_setting_and_warns_before(replog, cluster, tmp_path):
    nobody = f"{HOST}:{free_port([])}"
    done = _broker(replog, cluster, tmp_path, controller_listener=nobody, initial_broker_registration_timeout_ms=1500)
    assert done.returncode == PROBLEM_FOUND
    assert f"from the controller at {nobody} within 1.5 s: NETWORK_EXCEPTION: {nobody} cannot be" in done.stderr
    assert '"level": "warning"' in next(line for line in done.stderr.splitlines() if "metadata stream lost" in line)


def test_a_broker_with_the_id_of_one_that_runs_says_once_what_it_waits_for(replog, cluster, tmp_path):
    own = {name.replace(".", "_"): value for name, value in broker_certificate(cluster, 1).items()}
    done = _broker(replog, cluster, tmp_path, node_id=1, initial_broker_registration_timeout_ms=4000, **own)
    assert (done.returncode, done.stderr.count("registration not accepted yet")) == (PROBLEM_FOUND, 1), done.stderr
    assert "did not accept broker 1 within" in done.stderr


def test_records_from_a_closed_stdin_are_none():
    command = [sys.executable, "-m", "replog.cli", "produce", "--topic", "t", "--bootstrap-server", f"{HOST}:1"]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *command], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (
        BAD_USE,
        "error: INVALID_REQUEST: stdin is closed, so there is nothing to send; give --file\n",
    )


def test_a_broker_needs_its_settings(replog, tmp_path):
    done = replog("broker")
    assert done.returncode == BAD_USE
    assert "node.id is missing" in done.stderr
    missing = replog("broker", "--config", tmp_path / "missing.properties")
    assert missing.returncode == BAD_USE
    assert "missing.properties" in missing.stderr


def test_nobody_at_the_address_is_told(asks_nobody):
    out, errors = asks_nobody.communicate(timeout=180)
    assert (asks_nobody.returncode, out) == (PROBLEM_FOUND, "")
    assert "NETWORK_EXCEPTION" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(("closed", "words"), [("1>&-", ["--version"]), ("2>&-", ["log", "dump", "/nowhere"])])
def test_a_closed_stream_changes_no_status_and_nothing_gets_into_another_one(closed, words):
    command = [sys.executable, "-m", "replog.cli", *words]
    run = ["sh", "-c", f'exec "$@" {closed}', "sh", *command]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (2 if words[0] == "log" else 0, "", "")


def test_no_file_gets_the_number_of_a_closed_stream():
    """What is written to stderr, such as the stacks that SIGQUIT prints, would go into a log."""
    script = "import os, replog.cli; os.write(9, str(os.open(os.devnull, os.O_RDONLY)).encode())"
    run = ["sh", "-c", f"exec 9>&1; exec {sys.executable} -c '{script}' <&- >&- 2>&-"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) > 2
