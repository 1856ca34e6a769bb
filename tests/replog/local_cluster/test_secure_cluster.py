"""`replog cluster up --secure`: real processes that know each other by certificates, and nobody else; and ACLs."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from replog.client import Admin, Consumer, Producer
from replog.config.processes import BrokerConfig
from replog.config.properties import load_properties
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster import authority
from replog.local_cluster.local_cluster import LocalCluster
from replog.rpc.methods import Controller, Replica
from replog.rpc.peer import Role
from replog.rpc.transports import server_tls, transport_named
from replog.topic import TopicPartition
from tests.replog.rpc.handlers import channel_to, error_of
from tests.replog.server.broker.conftest import eventually
from tests.replog.waiting import until

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    running = LocalCluster(tmp_path_factory.mktemp("secure"), secure=True)
    with running:
        yield running
    assert [member.state for member in running.status()] == ["stopped"] * 4


async def test_a_secure_cluster_serves_those_who_show_a_certificate_and_no_other(secure, monkeypatch):
    transport = transport_named(tls=secure.tls)
    async with (
        Admin(secure.bootstrap, transport=transport) as admin,
        Producer(secure.bootstrap, transport=transport) as producer,
        Consumer(secure.bootstrap, transport=transport) as consumer,
    ):
        await admin.create_topic("t", partitions=1)
        for number in range(20):
            await (await producer.send("t", b"%d" % number))
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek_to_beginning()
        read: list[bytes | None] = []
        while len(read) < 20:
            read += [record.value for record in await consumer.fetch()]
        assert read == [b"%d" % number for number in range(20)]
        secure.wait_for_full_isr("t")
        secure.kill(1)
        await (await producer.send("t", b"after a crash"))
        secure.start(1)
        secure.wait_for_full_isr("t")
    monkeypatch.delenv("REPLOG_CLIENT_CONFIG", raising=False)
    async with Admin(secure.bootstrap, timeout_ms=3000) as stranger:
        error = await error_of(stranger.list_topics())
    assert error.code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT), error
    assert "security.protocol=SSL" in error.message
    for member, method in (
        (secure.state.controller, Controller["register_broker"]),
        (secure.state.broker(1), Replica["fetch"]),
    ):
        async with channel_to(member.address, transport) as channel:
            stream = channel.open(method)
            assert (await error_of(stream.receive(10))).code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        log = secure.log_file(member)  # a thread writes it, perhaps after the answer
        await eventually(lambda log=log, method=method: method.path in log.read_text())
        (denied,) = [line for line in log.read_text().splitlines() if method.path in line]
        for word in ("replog.authorizer", '"denied"', "User:admin", "127.0.0.1", "it is for a broker's certificate"):
            assert word in denied
    _no_secret_is_shown(secure)
    with pytest.raises(ReplogError, match=r"says replog://.*/client/admin, and this is broker 1"):
        _broker_with_another_certificate(secure)


def _no_secret_is_shown(cluster: LocalCluster) -> None:
    secrets = {
        line
        for path in cluster.client_config.parent.iterdir()
        for line in path.read_text().splitlines()
        if path.name != "ca.pem" and len(line) == 64
    }
    assert len(secrets) > 5
    told = [path.read_text(errors="replace") for path in cluster.directory.glob("*/*.log")]
    for member in cluster.state.members:
        assert member.pid is not None
        told += [Path(f"/proc/{member.pid}/{each}").read_text(errors="replace") for each in ("cmdline", "environ")]
    assert not any(secret in text for text in told for secret in secrets)


def _broker_with_another_certificate(cluster: LocalCluster) -> None:
    tls = cluster.client_config.parent
    config = BrokerConfig.parse(
        {
            "node.id": "1",
            "log.dirs": os.fspath(cluster.directory / "other"),
            "security.protocol": "SSL",
            "ssl.keystore.location": os.fspath(tls / "client-admin.pem"),
            "ssl.truststore.location": os.fspath(tls / "ca.pem"),
        },
        "test",
    )
    server_tls(config, config.bound, Role.BROKER, "1")


def test_commands_find_the_certificate_of_a_secure_local_cluster_by_themselves(replog, secure):
    here = {"REPLOG_CLUSTER_DIRECTORY": str(secure.directory)}

    def ok(*words: object, stdin: str = "", **environment: str) -> str:
        done = replog(*words, stdin=stdin, environment=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    up = replog("cluster", "up", "--secure", environment=here)
    (config,) = re.findall(r"REPLOG_CLIENT_CONFIG=(\S+)", up.stderr)
    ok("topic", "create", "--topic", "greetings", "--partitions", 1, **here)
    ok("produce", "--topic", "greetings", stdin="hello\n", **here)
    read = ("consume", "--topic", "greetings", "--from-beginning", "--max-messages", 1)
    assert ok(*read, **here) == "hello"
    named = (*read, "--bootstrap-server", up.stdout.strip())
    assert ok(*named, REPLOG_CLIENT_CONFIG=config) == "hello"
    refused = replog(*named, environment={"REPLOG_CLIENT_CONFIG": ""})
    assert refused.returncode == 1
    assert "security.protocol=SSL" in refused.stderr


def test_each_may_do_what_its_certificate_was_allowed_and_administrators_everything(replog, secure):
    tls = secure.client_config.parent

    def as_client(name: str) -> Path:
        keystore = {"ssl.keystore.location": authority.issue(tls, Role.CLIENT, name)}
        path = tls / f"{name}.properties"
        path.write_text("".join(f"{k}={v}\n" for k, v in (load_properties(secure.client_config) | keystore).items()))
        return path

    files = {"admin": secure.client_config, "ann": as_client("ann"), "bob": as_client("bob")}

    def ask(who: str, words: str, stdin: str = "") -> tuple[int, str]:
        environment = {"REPLOG_CLIENT_CONFIG": str(files[who])}
        bootstrap = "--bootstrap-server", secure.bootstrap
        done = replog(*words.split(), *bootstrap, stdin=stdin, environment=environment)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr

    def denied(who: str, words: str, stdin: str = "") -> bool:
        status, said = ask(who, words, stdin)
        return (status, "AUTHORIZATION_FAILED" in said) == (1, True)

    produce, consume = "produce --topic flights", "consume --topic flights --from-beginning --max-messages 1"
    assert ask("admin", "topic create --topic flights")[0] == 0
    for who in ("ann", "bob"):
        assert denied(who, produce, "a line\n")
        assert denied(who, consume)
        assert denied(who, "acl add --allow-principal User:bob --cluster")
        assert denied(who, "topic create --topic other")
    bob = "acl add --allow-principal User:bob --consumer --topic fl --resource-pattern-type prefixed"
    assert ask("admin", "acl add --allow-principal User:ann --producer --topic flights") == (0, "added 3 ACLs\n")
    assert (
        "added 0 ACLs; 3 were there" in ask("admin", "acl add --allow-principal User:ann --producer --topic flights")[1]
    )
    assert ask("admin", bob)[0] == 0
    until(lambda: ask("ann", produce, "a line\n")[0] == 0, "the brokers hear of it")
    until(lambda: ask("bob", consume)[1].startswith("a line"), "the brokers hear of it")
    assert denied("ann", consume)
    assert denied("bob", produce, "a line\n")
    secure.kill(1)
    secure.start(1)
    assert ask("ann", produce, "another line\n")[0] == 0
    assert denied("bob", produce, "a line\n")
    assert "User:bob" in ask("admin", "acl list --topic flights --resource-pattern-type match")[1]
    assert "removed 3 ACLs" in ask("admin", "acl remove --allow-principal User:ann --producer --topic flights")[1]
    until(lambda: denied("ann", produce, "a line\n"), "the brokers hear that it is taken away")
    told = "".join(secure.log_file(member).read_text() for member in secure.state.members)
    assert any('"event": "denied"' in line and '"principal": "User:bob"' in line for line in told.splitlines())


def test_a_cluster_without_tls_does_not_become_a_secure_one_by_a_word(tmp_path):
    LocalCluster(tmp_path, brokers=1, secure=False)._plan()
    with pytest.raises(ReplogError, match="was made without TLS"):
        LocalCluster(tmp_path, secure=True).up()
