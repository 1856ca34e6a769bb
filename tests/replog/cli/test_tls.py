"""Certificates by commands; `tests/docs/test_tour_secured.py` makes a secure cluster by hand."""

from collections.abc import Callable
from pathlib import Path

import pytest

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


def test_a_cluster_gets_the_id_that_is_in_its_certificates(ok, tmp_path):
    cluster_id = ok("tls", "init", tmp_path / "tls")
    store = f"--override=metadata.log.dir={tmp_path / 'controller'}"
    assert cluster_id in ok("controller", "format", store, "--cluster-id", cluster_id)


def test_who_may_read_the_authoritys_key_is_warned_of(replog, ok, tmp_path):
    ok("tls", "init", tmp_path)
    (tmp_path / "ca.key").chmod(0o644)
    assert "ca.key has mode 0644: who reads it can" in replog("tls", "issue", "client", "ann", "-a", tmp_path).stderr


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
