"""Whatever the files in deploy/ would run, our command line accepts, with settings that parse."""

import copy
import shutil
import subprocess
import tomllib
import warnings
from pathlib import Path

import kubernetes_validate
import pytest

from replog.config.processes import BrokerConfig, ControllerConfig
from replog.config.properties import load_properties
from replog.rpc.serving import HEALTH, READY
from tests.deploy.commands import DEPLOY, all_commands, compose, containers, kubernetes, parse, systemd_command, unit

PORTS = ("listeners", "metrics.listener")
REPLOG = [command for command in all_commands() if command.program.endswith("replog")]


def test_every_kind_of_file_has_commands():
    sources = {command.source.partition(":")[0] for command in REPLOG}
    assert sources == {
        "compose.yaml",
        "backup.yaml",
        "broker.yaml",
        "controller.yaml",
        "replog-broker@.service",
        "replog-controller.service",
        "replog-controller-format.service",
    }


@pytest.mark.parametrize("command", REPLOG, ids=lambda command: command.source)
def test_the_command_line_accepts_the_command(command):
    parameters = parse(command.arguments)
    assert parameters["config"] == Path(command.config_file())
    assert len(parameters["override"]) == len(command.overrides())


@pytest.mark.parametrize("command", REPLOG, ids=lambda command: command.source)
def test_its_settings_parse(command):
    file = DEPLOY / "config" / Path(command.config_file()).name
    settings = {**load_properties(file), **command.overrides()}
    if command.arguments[0] == "broker":
        BrokerConfig.parse(settings, command.source)
    else:
        ControllerConfig.parse(settings, command.source)


def test_a_wrong_option_would_be_noticed():
    with pytest.raises(Exception, match="No such option"):
        parse(["broker", "--configuration=/etc/replog/broker.properties"])


@pytest.mark.parametrize("name", ["broker", "controller"])
def test_the_example_settings_parse_as_they_are(name):
    settings = load_properties(DEPLOY / "config" / f"{name}.properties")
    model = BrokerConfig if name == "broker" else ControllerConfig
    model.parse(settings, name)


def test_who_listens_beyond_its_machine_says_that_it_does_so_without_tls():
    beyond = 0
    for command in REPLOG:
        overrides = command.overrides()
        if overrides.get("listeners", "").startswith("0.0.0.0:"):
            beyond += 1
            assert overrides.get("allow.plaintext") == "true", command.source
    assert beyond == 6


@pytest.mark.parametrize("file", ["compose.yaml", "compose-secured.yaml"])
def test_a_container_of_compose_has_an_init_which_hears_a_signal_that_comes_at_once(file):
    ours = [service for service in compose(file)["services"].values() if service.get("image") == "replog"]
    assert ours
    assert all(service["init"] is True for service in ours)


def test_no_two_brokers_share_an_identity_or_a_volume():
    services = compose()["services"]
    brokers = [command for command in REPLOG if command.source.startswith("compose.yaml: broker")]
    assert len(brokers) == 3
    for setting in ("node.id", "advertised.listeners"):
        assert len({command.overrides()[setting] for command in brokers}) == 3
    volumes = [
        volume for name, service in services.items() if name != "format" for volume in service.get("volumes", [])
    ]
    assert len(volumes) == len(set(volumes)) == 4
    assert {volume.split(":")[0] for volume in volumes} == set(compose()["volumes"])


def test_what_compose_names_is_there():
    services = compose()["services"]
    for command in REPLOG:
        if command.source.startswith("compose.yaml: broker"):
            overrides = command.overrides()
            assert overrides["controller.listener"].split(":")[0] in services
            assert overrides["advertised.listeners"].split(":")[0] == command.source.split(": ")[1]
    for service in services.values():
        assert set(service.get("depends_on", [])) <= set(services)
        build = service["build"]
        assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
        assert f"AS {build['target']}\n" in (DEPLOY / "Dockerfile").read_text()


def test_what_the_dockerfile_copies_is_there_and_not_ignored():
    kept = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = set()
    for line in (DEPLOY / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            copied |= set(line.split()[1:-1])
    assert copied == kept
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())
    assert set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) < copied, (
        "a wheel without them is built"
    )
    for path in copied:
        assert (DEPLOY.parent / path).exists(), path


def test_kubernetes_asks_the_port_that_the_process_listens_on():
    probed = 0
    for path, document in kubernetes():
        if document["kind"] != "StatefulSet":
            continue
        for container in document["spec"]["template"]["spec"]["containers"]:
            command = next(c for c in REPLOG if c.source == f"{path}: {container['name']}")
            port = int(command.overrides()["listeners"].rpartition(":")[2])
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                asked = container[probe]["grpc"]
                asks = {"livenessProbe": HEALTH.full_name, "readinessProbe": READY}.get(probe, "")
                assert asked.pop("service", "") in ("", asks)
                assert asked == {"port": port}
                probed += 1
            metrics = int(command.overrides()["metrics.listener"].rpartition(":")[2])
            assert [p["containerPort"] for p in container["ports"]] == [port, metrics]
            annotations = document["spec"]["template"]["metadata"]["annotations"]
            assert annotations["prometheus.io/port"] == str(metrics)
    assert probed == 6


def test_kubernetes_objects_select_each_other():
    objects = {(document["kind"], document["metadata"]["name"]): document for _, document in kubernetes()}
    for (kind, _), document in objects.items():
        if kind == "StatefulSet":
            labels = document["spec"]["template"]["metadata"]["labels"]
            service = objects["Service", document["spec"]["serviceName"]]
            assert document["spec"]["selector"]["matchLabels"] == labels == service["spec"]["selector"]
    for command in REPLOG:
        if command.source.startswith("broker.yaml"):
            overrides = command.overrides()
            assert ("Service", overrides["controller.listener"].split(":")[0]) in objects
            assert overrides["advertised.listeners"] == "replog-broker-0.replog-broker:9092"
    budget = objects["PodDisruptionBudget", "replog-broker"]
    assert budget["spec"]["selector"] == objects["StatefulSet", "replog-broker"]["spec"]["selector"]


@pytest.mark.parametrize("directory", ["kubernetes", "kubernetes/audit", "kubernetes-secured"])
def test_kubernetes_schemas_fit(directory):
    """Those that its releases publish; a field that is not there counts, too."""
    for path, document in kubernetes(directory):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the libraries that it uses
            assert kubernetes_validate.validate(document, "1.34", strict=True) == "1.34", path
        strange = copy.deepcopy(document)
        strange["spec"]["surprise"] = 1
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(strange, "1.34", strict=True)


@pytest.mark.parametrize("directory", ["kubernetes", "kubernetes-secured"])
def test_every_port_of_a_pod_is_open_to_somebody_and_no_other(directory):
    pods, open_to = {}, {}
    for _, document in kubernetes(directory):
        if document["kind"] == "StatefulSet":
            labels = document["spec"]["template"]["metadata"]["labels"]
            ports = {port["containerPort"] for container in containers(document) for port in container["ports"]}
            pods[labels["app.kubernetes.io/component"]] = ports
        if document["kind"] == "NetworkPolicy":
            component = document["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
            rules = document["spec"]["ingress"]
            assert all(rule["from"] for rule in rules)
            open_to[component] = {port["port"] for rule in rules for port in rule["ports"]}
    assert pods == open_to


@pytest.mark.parametrize("suffix", ["", "-secured"])
def test_no_two_processes_of_a_host_listen_on_one_port(suffix):
    """Neither by the settings files alone nor by the units."""
    of = {name: load_properties(DEPLOY / "config" / f"{name}{suffix}.properties") for name in ("broker", "controller")}
    units = [systemd_command("replog-broker@.service", instance=instance) for instance in "12"]
    units.append(systemd_command("replog-controller.service"))
    for processes in (list(of.values()), [{**of[one.arguments[0]], **one.overrides()} for one in units]):
        ports = [settings[name].rpartition(":")[2] for settings in processes for name in PORTS]
        assert len(set(ports)) == len(ports), ports


def test_systemd_keeps_what_the_process_writes():
    for name, setting in (
        ("replog-broker@.service", "log.dirs"),
        ("replog-controller.service", "metadata.log.dir"),
        ("replog-controller-format.service", "metadata.log.dir"),
    ):
        (state,) = unit(name)["StateDirectory"]
        command = next(c for c in REPLOG if c.source == name)
        assert command.overrides()[setting] == f"/var/lib/{state}".replace("%i", "1")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_accepts_the_units(tmp_path):
    for path in (DEPLOY / "systemd").glob("*.service"):
        text = path.read_text().replace("/opt/replog/bin/replog", "/bin/true")
        (tmp_path / path.name.replace("@.", "@1.")).write_text(text)
    units = sorted(str(path) for path in tmp_path.iterdir())
    run = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert not run.stderr.strip(), run.stderr
