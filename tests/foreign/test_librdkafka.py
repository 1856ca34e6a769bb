"""librdkafka's own tests, in C and C++: each number is a process of its `test-runner`, since a failure aborts it.

Those that need no broker are left out (`-L`); `-Q` makes the others short, and leaves nothing of some.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replog.local_cluster.local_cluster import LocalCluster
from tests.foreign.clusters import foreign_cluster
from tests.foreign.judge import SAID, Judge, Said, Verdict
from tests.foreign.tools import NoTool, build, debian_source
from tests.interop.kafka import VERSION as KAFKA_VERSION
from tests.interop.kafka import Kafka, NoKafka

pytestmark = pytest.mark.foreign

CLUSTER: dict[str, Any] = {"partitions": 4, "guarded": True}
JUDGE = Judge("librdkafka")
LOGS = SAID / JUDGE.name
NO_CREATION = "noautocreate"
TIMEOUT_S, HOPELESS_S = 900, 60  # of one number; of one that is listed as failing, which often waits for long
SCRIPTS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-acls.sh": "kafka.admin.AclCommand",
    "kafka-run-class.sh": "",
}
_ENTRY = re.compile(r"^    _TEST\((\d{4})(\w+),\s*([\w |]+)((?:(?!\n    _TEST).)*)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| \d\w+ +\| +([A-Z]+) \| +([\d.]+)s \|(.*)$", re.MULTILINE)  # of the table at the end
_FAILURE = re.compile(r"### Test .* ###\n(.*)")
_COLOURS = re.compile(r"\033\[\d*m")


HEADERS = {"libssl-dev": "openssl/ssl.h", "libzstd-dev": "zstd.h", "rapidjson-dev": "rapidjson/schema.h"}


def _build(work: Path) -> None:
    """Raises NoTool. Without one of the headers it would be built, and test less."""
    for package, header in HEADERS.items():
        if not Path("/usr/include", header).exists():
            raise NoTool(f"there is no {header} to build librdkafka with: install Debian's {package}")
    build(work, "./configure", "--disable-gssapi", "--disable-curl")
    build(work, "make", "libs")
    build(work, "make", "-C", "tests", "build")


@pytest.fixture(scope="module")
def tests() -> Path:
    """The directory of the runner, which only starts there."""
    return debian_source("librdkafka", "2.14.2-1", _build) / "tests"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kafka's command-line tools where librdkafka's tests look for them."""
    try:
        kafka = Kafka()
    except NoKafka as reason:
        raise NoTool(str(reason)) from None
    home = tmp_path_factory.mktemp("kafka")
    (home / "bin").mkdir()
    for name, main in SCRIPTS.items():
        script = home / "bin" / name
        words = kafka.command(main, (), "error")
        script.write_text(f'#!/bin/sh\nexec {" ".join(repr(word) for word in words if word)} "$@"\n')
        script.chmod(0o755)
    return home


@pytest.fixture(scope="module")
def asked_first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster that makes no topic without being told to: librdkafka's scenario `noautocreate`."""
    settings = {"auto.create.topics.enable": "false"}
    with foreign_cluster(tmp_path_factory.mktemp("cluster"), **CLUSTER, settings=settings) as cluster:
        yield cluster


@pytest.mark.parametrize("name", [name for name in JUDGE.listed if NO_CREATION not in name])
def test_a_number_of_librdkafka_does_as_listed(tests, scripts, cluster, tmp_path, name):
    JUDGE.check({name: _said(tests, scripts, cluster, tmp_path, name)}, asked=[name])


@pytest.mark.parametrize("name", [name for name in JUDGE.listed if NO_CREATION in name])
def test_a_number_without_auto_creation_does_as_listed(tests, scripts, asked_first, tmp_path, name):
    JUDGE.check({name: _said(tests, scripts, asked_first, tmp_path, name, "-s", NO_CREATION)}, asked=[name])


def test_every_number_that_needs_a_broker_is_listed(tests):
    wanted: dict[str, str] = {}
    for number, name, flags, more in _ENTRY.findall((tests / "test.c").read_text()):
        if not {"TEST_F_LOCAL", "TEST_F_MANUAL"}.intersection(flags.split(" | ")):
            scenario = f" {NO_CREATION}" if NO_CREATION in more else ""
            wanted.setdefault(number + scenario, number + name + scenario)
    assert list(JUDGE.listed) == list(wanted.values())


def _said(tests: Path, scripts: Path, cluster: LocalCluster, work: Path, name: str, *options: str) -> Said:
    brokers = cluster.bootstrap
    conf = work / "test.conf"
    conf.write_text(f"bootstrap.servers={brokers}\ntest.timeout.multiplier=3\ntest.topic.random=true\n")
    env = {
        **os.environ,
        "RDKAFKA_TEST_CONF": str(conf),
        "KAFKA_PATH": str(scripts),
        "BROKERS": brokers,
        "TEST_KAFKA_VERSION": KAFKA_VERSION,
        "LD_LIBRARY_PATH": "../src:../src-cpp",
        "TESTS": name[:4],
    }
    env.pop("CI", None)  # it changes what runs
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{name}.log"
    patience_s = HOPELESS_S if JUDGE.listed[name].verdict is Verdict.FAILS else TIMEOUT_S
    with log.open("wb") as output:
        try:
            command = ["./test-runner", "-Q", "-L", "-p1", *options]
            code = subprocess.run(
                command,
                cwd=tests,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=patience_s,
            ).returncode
        except subprocess.TimeoutExpired:
            return Said(Verdict.FAILS, f"took more than {patience_s} s")
    text = _COLOURS.sub("", log.read_text(errors="replace"))
    if code != 0:
        why = _FAILURE.search(text)
        return Said(Verdict.FAILS, why[1] if why else f"exit status {code}; see {log}")
    rows = [row for row in _ROW.findall(text) if "negative test flags" not in row[2]]
    if any(state == "PASSED" and float(seconds) > 0 for state, seconds, _ in rows):
        return Said(Verdict.PASSES)
    skipped = [why.strip() for state, _, why in rows if state == "SKIPPED"]
    return Said(Verdict.SKIPS, "; ".join(skipped) or ("nothing is left with -Q" if rows else "a flag leaves it out"))
