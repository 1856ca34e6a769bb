"""The files for three of each with certificates: commands and settings that are accepted, and certificates for all."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from replog.config.processes import BrokerConfig, ControllerConfig
from replog.config.properties import load_properties
from tests.deploy.commands import (
    DEPLOY,
    Command,
    compose,
    compose_commands,
    containers,
    kubernetes,
    kubernetes_commands,
    parse,
    pod_of,
)
from tests.replog.server.controller.etcds import etcd_or_skip

COMPOSE = compose_commands("compose-secured.yaml")
KUBERNETES = kubernetes_commands("kubernetes-secured")
SERVERS = [command for command in (*COMPOSE, *KUBERNETES) if command.arguments[0] in ("broker", "controller")]
ETCDS = [command for command in (*COMPOSE, *KUBERNETES) if command.program.endswith("etcd")]


def settings(command: Command) -> dict[str, str]:
    return {**load_properties(DEPLOY / "config" / Path(command.config_file()).name), **command.overrides()}


def config(command: Command) -> BrokerConfig | ControllerConfig:
    model = BrokerConfig if command.arguments[0] == "broker" else ControllerConfig
    return model.parse(settings(command), command.source)


def test_there_are_three_of_each():
    assert (len(SERVERS), len(ETCDS)) == (7 + 4, 3 + 1)  # with those that make and copy the metadata


@pytest.mark.parametrize("command", SERVERS, ids=lambda command: command.source)
def test_the_command_line_and_the_settings_are_accepted_and_it_has_tls_and_acls(command):
    parse(command.arguments)
    parsed = config(command)
    assert parsed.security_protocol == "SSL"
    assert not parsed.allow_plaintext
    assert parsed.authorizer_class_name
    if isinstance(parsed, ControllerConfig):
        assert len(parsed.metadata_etcd_endpoints.split(",")) == 3
        assert parsed.metadata_etcd_ssl_keystore_location
    else:
        assert len(parsed.controller_listener.split(",")) == 3


@pytest.mark.parametrize("command", ETCDS, ids=lambda command: command.source)
def test_etcd_knows_the_flags_and_asks_everybody_for_certificates(command):
    run = subprocess.run([etcd_or_skip(), *command.arguments, "--version"], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert {"--client-cert-auth", "--peer-client-cert-auth"} <= set(command.arguments)
    assert "http://" not in " ".join(command.arguments)


def test_compose_gives_every_process_its_own_certificate_at_the_place_where_it_looks():
    services = compose("compose-secured.yaml")["services"]
    secrets = compose("compose-secured.yaml")["secrets"]
    shown = []
    for name, service in services.items():
        given = {secret["target"]: secret["source"] for secret in service["secrets"]}
        assert set(given.values()) <= set(secrets), name
        command = next(c for c in COMPOSE if c.source.endswith(f": {name}"))
        wanted = set(re.findall(r"/etc/replog-tls/\S+?\.pem", " ".join(command.arguments)))
        if command in SERVERS:
            wanted |= {value for value in settings(command).values() if value.startswith("/etc/replog-tls/")}
        assert wanted <= set(given), name
        if name != "format":
            shown.append(given["/etc/replog-tls/keystore.pem"])
    assert len(shown) == len(set(shown)) == 10


def test_compose_calls_everything_by_names_that_are_there_and_in_the_certificates():
    services = compose("compose-secured.yaml")["services"]
    comment = (DEPLOY / "compose-secured.yaml").read_text().partition("name: replog-secured")[0]
    for command in SERVERS[:7]:
        parsed = config(command)
        others = parsed.controller_listener if isinstance(parsed, BrokerConfig) else parsed.metadata_etcd_endpoints
        assert {address.split(":")[0] for address in others.split(",")} <= set(services)
        if "format" not in command.source:
            host = parsed.advertised_listeners.split(":")[0]
            assert command.source.endswith(f": {host}")
            assert f"--host {host[:-1]}$n" in comment


def test_kubernetes_mounts_what_is_looked_for_and_probes_with_certificates_or_without_grpc():
    documents = [document for _, document in kubernetes("kubernetes-secured")]
    made = (DEPLOY / "kubernetes-secured" / "etcd.yaml").read_text().partition("apiVersion")[0]
    sets = [document for document in documents if containers(document)]
    assert [document["kind"] for document in sets].count("StatefulSet") == 3
    for document in sets:
        pod = pod_of(document)
        (container,) = containers(document)
        secret = next(volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume)
        of_secret = made.partition(f"secret generic {secret} ")[2].partition("kubectl create")[0]
        text = " ".join(container["args"])
        for file in re.findall(r"/etc/replog-tls/(\S+?)\.pem", text):
            assert re.sub(r"\$\(POD_INDEX\)|0$", "$n", file) + ".pem" in of_secret, file
        if document["kind"] == "StatefulSet":
            assert document["spec"]["replicas"] == 3
            port = container["ports"][0]["containerPort"]
            assert container["startupProbe"]["tcpSocket"] == container["livenessProbe"]["tcpSocket"] == {"port": port}
            if "exec" in (ready := container["readinessProbe"]):
                program, *arguments = shlex.split(ready["exec"]["command"][2].removeprefix("exec "))
                assert program == "replog"
                parse(arguments)
                as_run = [word.replace("$POD_INDEX", "$(POD_INDEX)") for word in arguments]
                assert set(container["args"]) >= {word for word in as_run if word.startswith("--override")}
            else:
                assert ready["tcpSocket"] == {"port": port}
