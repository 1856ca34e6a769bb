"""Every command of docs/audit-kafka.md, and of the Kubernetes manifest that it shows, has options that exist.

Spark's are looked up in the classes of PySpark's own jars: no Java is started.
"""

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from replog.release import VERSION
from spark_jobs.audit_replicas import app
from tests.deploy.commands import compose_commands, pod_of
from tests.docs.tree import ROOT

MANIFEST = ROOT / "deploy" / "kubernetes" / "audit" / "audit.yaml"
WHEEL = "dist/replog-0.1.0-py3-none-any.whl"
CHECKED = {"spark-submit", "spark-class", "replog", "pip", "python3", "docker", "kubectl", "unzip"}


def commands(program: str) -> list[list[str]]:
    """The words of each command of the document that runs `program`."""
    text = (ROOT / "docs" / "audit-kafka.md").read_text().replace("\\\n", " ")
    shown = [shlex.split(line) for line in re.findall(r"^\$ (.*)", text, re.M)]
    assert {Path(words[0]).name for words in shown} == CHECKED, "a command that nothing checks"
    return [words[1:] for words in shown if Path(words[0]).name == program]


@cache
def constants(jar: str, where: str) -> bytes:
    """What stands in the classes of one of Spark's jars whose path has `where` in it."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    (path,) = (Path(spec.origin).parent / "jars").glob(jar)
    with zipfile.ZipFile(path) as content:
        return b"".join(content.read(name) for name in content.namelist() if where in name and name.endswith(".class"))


def is_constant(text: str, jar: str, where: str) -> bool:
    """As a class file has a string: its length, then itself."""
    return len(text).to_bytes(2, "big") + text.encode() in constants(jar, where)


def split_submission(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """The options of `spark-submit`, and what follows them."""
    options: dict[str, list[str]] = {}
    while words[0].startswith("--"):
        options.setdefault(words[0], []).append(words[1])
        words = words[2:]
    return options, words


def containers() -> dict[str, dict[str, Any]]:
    """The container of each workload of the manifest, by the workload's name."""
    containers = {}
    for document in yaml.safe_load_all(MANIFEST.read_text()):
        if document["kind"] in ("Deployment", "CronJob"):
            (containers[document["metadata"]["name"]],) = pod_of(document)["containers"]
    return containers


def test_spark_submit_knows_every_option_and_setting():
    shown = commands("spark-submit")
    assert len(shown) >= 4
    for words in shown:
        options, (entry, *arguments) = split_submission(words)
        for option in options:
            assert is_constant(option, "spark-launcher_*.jar", "SparkSubmitOptionParser"), option
        assert options["--py-files"] == [WHEEL]
        assert entry == "dist/audit_replicas.py"
        given(arguments)
        for setting in options.get("--conf", []):
            name, equals, _ = setting.partition("=")
            assert equals, setting
            assert is_setting(name), name


def given(words: list[str]) -> dict[str, object]:
    """The options of an audit; click raises for what is none."""
    return get_command(app).make_context("audit", list(words)).params


def is_setting(name: str) -> bool:
    kubernetes = ("spark-kubernetes_*.jar", "deploy/k8s/Config")
    if volume := re.fullmatch(r"(spark\.kubernetes\.executor\.volumes\.)(\w+)\.\w+\.([\w.]+)", name):
        return all(is_constant(part, *kubernetes) for part in volume.groups())
    return is_constant(name, "spark-core_*.jar", "internal/config/") or is_constant(name, *kubernetes)


def test_what_does_not_exist_would_be_noticed():
    assert not is_setting("spark.kubernetes.container.picture")
    assert not is_setting("spark.kubernetes.executor.volumes.floppy.replicas.mount.path")
    assert not is_constant("--py-file", "spark-launcher_*.jar", "SparkSubmitOptionParser")


def test_spark_class_knows_every_option():
    shown = [*commands("spark-class"), *(c["args"] for c in containers().values() if c.get("command"))]
    shown += [command.arguments for command in compose_commands() if command.program == "spark-class"]
    assert len(shown) == 6
    for main, *words in shown:
        arguments = main.rpartition(".")[0].replace(".", "/") + "/" + main.rpartition(".")[2] + "Arguments"
        assert constants("spark-core_*.jar", arguments), main
        for word in words:
            assert not word.startswith("--") or is_constant(word, "spark-core_*.jar", arguments), (main, word)


def test_the_audits_own_options_parse():
    shown = [*commands("replog"), containers()["replog-audit"]["args"]]
    assert len(shown) >= 2
    for group, command, *words in shown:
        assert (group, command) == ("audit", "run")
        given(words)


def test_pip_knows_every_option():
    assert commands("python3") == [["-m", "venv", "/opt/audit"]]
    for subcommand, *words in commands("pip"):
        told = subprocess.run(
            [sys.executable, "-m", "pip", subcommand, "--help"], capture_output=True, text=True, timeout=60, check=True
        ).stdout
        for word in words:
            assert not word.startswith("--") or re.search(rf"{word}\b", told), word


def test_the_wheel_is_called_what_the_document_calls_it():
    assert Path(WHEEL).name == f"replog-{VERSION}-py3-none-any.whl"
    assert commands("pip")[1] == ["install", f"{WHEEL}[spark]"]
    (words,) = commands("unzip")
    assert words == ["-o", "-j", WHEEL, "spark_jobs/audit_replicas.py", "-d", "dist"]
    assert (ROOT / words[3]).is_file()


def test_images_files_and_objects_are_there():
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    ((_, *build),) = commands("docker")
    options, _ = split_submission(build)
    assert options["--file"] == ["deploy/Dockerfile"]
    assert f"AS {options['--target'][0]}\n" in dockerfile
    for container in containers().values():
        assert container["image"] == f"{options['--tag'][0]}:latest"
    named = [word for words in commands("kubectl") for word in words if "/" in word]
    assert {"deploy/kubernetes/audit", "--from=cronjob/replog-audit", "job/audit-now"} == set(named)
    assert "replog-audit" in containers()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
def test_kubectl_knows_every_option():
    for subcommand, *words in commands("kubectl"):
        of = [subcommand, *takewhile(lambda word: not word.startswith("--"), words)]
        told = subprocess.run(["kubectl", *of, "--help"], capture_output=True, text=True, timeout=60).stdout
        for word in words:
            assert not word.startswith("--") or f"{word.partition('=')[0]}=" in told, word


def test_the_manifests_parts_find_each_other():
    documents = list(yaml.safe_load_all(MANIFEST.read_text()))
    (service,) = (document for document in documents if document["kind"] == "Service")
    master = containers()["replog-spark-master"]
    name, port = service["metadata"]["name"], service["spec"]["ports"][0]["port"]
    assert master["args"][1:] == ["--host", "$(POD_IP)", "--port", str(port)]
    assert [p["containerPort"] for p in master["ports"]] == [port]
    assert containers()["replog-spark-worker"]["args"][-1] == f"spark://{name}:{port}"
    (wait,) = pod_of(next(d for d in documents if d["kind"] == "CronJob"))["initContainers"]
    assert f"/dev/tcp/{name}/{port}" in wait["command"][-1]
    options = given(containers()["replog-audit"]["args"][2:])
    assert options["master"] == f"spark://{name}:{port}"
    brokers = next(yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "broker.yaml").read_text()))
    assert options["bootstrap_server"] == f"{brokers['metadata']['name']}:{brokers['spec']['ports'][0]['port']}"
    for document in documents:
        if document["kind"] == "Deployment":
            labels = document["spec"]["template"]["metadata"]["labels"]
            assert document["spec"]["selector"]["matchLabels"] == labels
            selected = document["metadata"]["name"] == service["metadata"]["name"]
            assert (service["spec"]["selector"] == labels) is selected


def test_nobody_has_to_resolve_the_name_of_a_pod():
    """Only the pod itself can, and Spark gives others the name that it finds for its address: unless it is told."""
    assert is_constant("SPARK_LOCAL_HOSTNAME", "spark-core_*.jar", "spark/util/Utils$")
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    for name, container in containers().items():
        (told,) = container["env"]
        assert told["valueFrom"] == address
        assert told["name"] == "SPARK_LOCAL_HOSTNAME" or ["--host", f"$({told['name']})"] == container["args"][1:3], (
            name
        )


@pytest.mark.parametrize("name", ["replog-spark-master", "replog-spark-worker", "replog-audit"])
def test_no_container_has_more_rights_than_it_needs(name):
    assert containers()[name]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
