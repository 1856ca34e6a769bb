"""The examples of docs/kafka.md, run as they stand, each against the same three brokers."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.docs.tree import ROOT
from tests.foreign.kafka_jars import spark_jars
from tests.foreign.tools import program, run, wheels
from tests.interop.conftest import of_version
from tests.interop.kafka import VERSION, cache_directory

pytestmark = pytest.mark.foreign

FRANZ_GO = "github.com/twmb/franz-go/pkg/kgo@v1.22.3"
TIMEOUT_S = 900
Example = Callable[[Path, str], tuple[list[str | Path], Mapping[str, str]]]  # a command, and what it finds in `environ`


def _kcat(_work: Path, code: str) -> tuple[list[str | Path], Mapping[str, str]]:
    program("kcat", "install Debian's kcat")
    return ["bash", "-euo", "pipefail", "-c", "\n".join(re.findall(r"^\$ (.*)", code, re.M))], {}


def _python(_work: Path, code: str) -> tuple[list[str | Path], Mapping[str, str]]:
    return [sys.executable, "-c", code], {"PYTHONPATH": str(wheels("confluent-kafka==2.16.1"))}


def _java(work: Path, code: str) -> tuple[list[str | Path], Mapping[str, str]]:
    of_version(VERSION)
    (work / "Example.java").write_text(code)
    return ["java", "-cp", f"{cache_directory()}/*", work / "Example.java"], {}


def _go(work: Path, code: str) -> tuple[list[str | Path], Mapping[str, str]]:
    (work / "main.go").write_text(code)
    go = program("go", "install Go")
    run(work, go, "mod", "init", "example")
    run(work, go, "get", FRANZ_GO)
    subprocess.run([go, "build", "-o", "example", "."], cwd=work, timeout=TIMEOUT_S, check=True)
    return [work / "example"], {}


def _spark(_work: Path, code: str) -> tuple[list[str | Path], Mapping[str, str]]:
    jars = ",".join(map(str, spark_jars().glob("*.jar")))
    return [sys.executable, "-c", code], {"PYSPARK_SUBMIT_ARGS": f"--master local[2] --jars {jars} pyspark-shell"}


EXAMPLES: dict[str, tuple[Example, str]] = {  # in the page's order, with what each prints
    "kcat": (_kcat, "hello\n"),
    "Python": (_python, "b'from Python'"),
    "Java": (_java, "from Java"),
    "Go": (_go, "from Go"),
    "Spark": (_spark, "499500"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_page_works(cluster, tmp_path, name):
    page = (ROOT / "docs" / "kafka.md").read_text()
    shown = dict(zip(EXAMPLES, re.findall(r"^```\w+\n(.*?)^```", page, re.M | re.S), strict=True))
    example, printed = EXAMPLES[name]
    command, environment = example(tmp_path, shown[name])
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, **environment, "REPLOG_BOOTSTRAP_SERVER": cluster.bootstrap},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert printed in done.stdout, done.stdout + done.stderr
