"""ACLs on a real cluster, by command: given, kept to by every process, taken away."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from replog.config.properties import load_properties
from replog.local_cluster import authority
from replog.local_cluster.local_cluster import LocalCluster
from replog.rpc.peer import Role
from tests.replog.waiting import until

pytestmark = pytest.mark.processes

# Nobody proves who they are here, brokers neither: what no ACL names is everybody's.
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("guarded")
    properties = directory / "controller/controller.properties"
    properties.parent.mkdir(parents=True)
    properties.write_text("".join(f"{name}={value}\n" for name, value in AUTHORIZER.items()))
    running = LocalCluster(directory, brokers=3, broker_settings=AUTHORIZER).up()
    try:
        yield running
    finally:
        killed = running.down()
    assert killed == []


def lines_of(cluster: LocalCluster, word: str) -> list[str]:
    return [
        line
        for member in cluster.state.members
        for line in Path(cluster.log_file(member)).read_text().splitlines()
        if word in line
    ]


@pytest.mark.plaintext("ACLs for those who prove no identity")
def test_what_others_were_allowed_is_closed_on_every_broker_and_after_a_crash_too(replog, cluster):
    def ask(*words: str, stdin: str = "") -> tuple[int, str]:
        done = replog(*words, "--bootstrap-server", cluster.bootstrap, stdin=stdin)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stderr + done.stdout

    for topic in ("open", "closed"):
        assert ask("topic", "create", "--topic", topic)[0] == 0
        assert ask("produce", "--topic", topic, stdin="a line\n")[0] == 0
    assert "added 3 ACLs" in ask("acl", "add", "--allow-principal", "User:ann", "--producer", "--topic", "closed")[1]
    assert "were there" in ask("acl", "add", "--allow-principal", "User:ann", "--producer", "--topic", "closed")[1]
    until(lambda: ask("produce", "--topic", "closed", stdin="a line\n")[0] != 0, "the brokers hear of the ACL")

    def closed() -> None:
        refused = (
            ("produce", "--topic", "closed"),
            ("consume", "--topic", "closed", "--from-beginning", "--max-messages", "1"),
            ("topic", "describe", "--topic", "closed"),
            ("topic", "alter", "--topic", "closed", "--config", "retention.ms=1"),
            ("topic", "delete", "--topic", "closed"),
        )
        for words in refused:
            status, said = ask(*words, stdin="a line\n")
            assert (status, "TOPIC_AUTHORIZATION_FAILED" in said) == (1, True), (words, said)
        assert ask("topic", "list")[1].split() == ["open"]
        assert ask("produce", "--topic", "open", stdin="a line\n")[0] == 0

    closed()
    cluster.kill(2)
    cluster.start(2)
    closed()
    denied = lines_of(cluster, '"event": "denied"')
    assert denied
    assert all('"logger": "replog.authorizer"' in line and '"principal": "User:ANONYMOUS"' in line for line in denied)
    assert "User:ann" in ask("acl", "list", "--topic", "closed", "--resource-pattern-type", "match")[1]
    assert "removed 3 ACLs" in ask("acl", "remove", "--topic", "closed", "--force")[1]
    until(lambda: ask("topic", "list")[1].split() == ["closed", "open"], "the brokers hear that it is open again")
    assert ask("topic", "describe", "--topic", "closed")[0] == 0


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "secure", secure=True) as running:
        yield running


def test_each_may_do_what_its_certificate_was_allowed_and_administrators_everything(replog, secure):
    tls = secure.client_config.parent

    def as_client(name: str) -> Path:
        settings = load_properties(secure.client_config) | {
            "ssl.keystore.location": str(
                tls / "client-admin.pem" if name == "admin" else authority.issue(tls, Role.CLIENT, name)
            )
        }
        path = tls / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    files = {name: as_client(name) for name in ("admin", "ann", "bob")}

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
    assert ask("admin", "acl add --allow-principal User:ann --producer --topic flights")[0] == 0
    assert (
        ask("admin", "acl add --allow-principal User:bob --consumer --topic fl --resource-pattern-type prefixed")[0]
        == 0
    )
    until(lambda: ask("ann", produce, "a line\n")[0] == 0, "the brokers hear of it")
    until(lambda: ask("bob", consume)[1].startswith("a line"), "the brokers hear of it")
    assert denied("ann", consume)
    assert denied("bob", produce, "a line\n")
    secure.kill(1)
    secure.start(1)
    assert ask("ann", produce, "another line\n")[0] == 0
    assert denied("bob", produce, "a line\n")
    assert ask("admin", "acl remove --allow-principal User:ann --producer --topic flights")[0] == 0
    until(lambda: denied("ann", produce, "a line\n"), "the brokers hear that it is taken away")
    assert any('"principal": "User:bob"' in line for line in lines_of(secure, '"event": "denied"'))
