"""From nothing to a secure cluster by commands alone: those of docs/security.md, as somebody types them."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from replog.local_cluster.ports import free_port
from replog.local_cluster.processes import ProcessId, spawn, terminate, wait_until_stopped
from tests.replog.processes.commands import Replog

pytestmark = pytest.mark.processes


@pytest.fixture
def ok(replog: Replog) -> Callable[..., str]:
    """What a command prints that must not fail."""

    def run(*words: object, stdin: str = "", **environment: str) -> str:
        done = replog(*words, stdin=stdin, environment=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def test_commands_find_the_certificate_of_a_secure_local_cluster_by_themselves(replog, ok, tmp_path):
    here = {"REPLOG_CLUSTER_DIRECTORY": str(tmp_path)}
    up = replog("cluster", "up", "--secure", "--brokers", 1, environment=here)
    try:
        assert up.returncode == 0, up.stderr
        (config,) = re.findall(r"REPLOG_CLIENT_CONFIG=(\S+)", up.stderr)
        ok("topic", "create", "--topic", "t", "--partitions", 1, **here)
        ok("produce", "--topic", "t", stdin="hello\n", **here)
        read = ("consume", "--topic", "t", "--from-beginning", "--max-messages", 1)
        assert ok(*read, **here) == "hello"
        named = (*read, "--bootstrap-server", up.stdout.strip())
        assert ok(*named, REPLOG_CLIENT_CONFIG=config) == "hello"
        refused = replog(*named)
        assert refused.returncode == 1
        assert "security.protocol=SSL" in refused.stderr
    finally:
        ok("cluster", "down", **here)


def test_the_way_of_the_documentation_by_hand(replog, ok, tmp_path):
    tls, port, controller = tmp_path / "tls", free_port([]), free_port([])
    cluster_id = ok("tls", "init", tls)
    store = tmp_path / "controller"
    assert cluster_id in ok("controller", "format", f"--override=metadata.log.dir={store}", "--cluster-id", cluster_id)
    keystores = {
        role: ok("tls", "issue", role, name, "--authority", tls, "--host", "127.0.0.2")
        for role, name in (("controller", "main"), ("broker", "1"), ("client", "ann"))
    }
    common = {
        role: [
            "security.protocol=SSL",
            f"ssl.keystore.location={keystore}",
            f"ssl.truststore.location={tls / 'ca.pem'}",
        ]
        for role, keystore in keystores.items()
    }
    own = {
        "controller": [f"listeners=127.0.0.1:{controller}", f"metadata.log.dir={store}", "min.insync.replicas=1"],
        "broker": [
            "node.id=1",
            f"listeners=127.0.0.2:{port}",
            f"log.dirs={tmp_path / 'broker'}",
            f"controller.listener=127.0.0.1:{controller}",
        ],
        "client": [],
    }
    for role in own:
        (tmp_path / f"{role}.properties").write_text("\n".join([*common[role], *own[role], ""]))
    running: list[ProcessId] = []
    try:
        for role in ("controller", "broker"):
            arguments = ["-m", "replog.cli", role, "--config", str(tmp_path / f"{role}.properties")]
            running.append(spawn(arguments, tmp_path / f"{role}.log"))
        client = {
            "REPLOG_CLIENT_CONFIG": str(tmp_path / "client.properties"),
            "REPLOG_BOOTSTRAP_SERVER": f"127.0.0.2:{port}",
        }
        create = ("topic", "create", "--topic", "t", "--partitions", 1, "--replication-factor", 1)
        for _ in range(20):  # each waits for seconds until somebody answers
            if (created := replog(*create, environment=client)).returncode == 0:
                break
        assert created.returncode == 0, created.stderr + (tmp_path / "broker.log").read_text()
        ok("produce", "--topic", "t", stdin="hello\n", **client)
        assert ok("consume", "--topic", "t", "--from-beginning", "--max-messages", 1, **client) == "hello"
    finally:
        for process in running:
            terminate(process)
        assert wait_until_stopped(running, 60.0) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("tls", "init", "{tls}"), "is there already"),
        (("tls", "issue", "broker", "1", "-a", "{tls}"), "--replace"),
        (("tls", "issue", "broker", "one", "-a", "{tls}"), "node.id"),
        (("tls", "issue", "king", "1", "-a", "{tls}"), "choose broker, controller, client"),
        (("tls", "issue", "client", "ann", "-a", "{tls}/none"), "replog tls init"),
        (("broker", "--override=node.id=1", "--override=log.dirs={tls}/d", "--override=listeners=0.0.0.0:1"), "set"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(replog, ok, tmp_path, words, says):
    tls = tmp_path / "tls"
    ok("tls", "init", tls)
    ok("tls", "issue", "broker", "1", "-a", tls)
    done = replog(*(word.format(tls=tls) for word in words))
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr
    assert not list(Path(tls).glob("*.tmp"))
