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


def lines_of(cluster: LocalCluster, word: str) -> list[str]:
    return [
        line
        for member in cluster.state.members
        for line in Path(cluster.log_file(member)).read_text().splitlines()
        if word in line
    ]


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
    assert any('"principal": "User:bob"' in line for line in lines_of(secure, '"event": "denied"'))
