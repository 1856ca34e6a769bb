"""A controller and a broker started by exactly what the systemd units say come up and go down cleanly."""

import sys
import urllib.request
from pathlib import Path

import pytest

from replog.local_cluster.ports import free_port, reserve
from replog.local_cluster.probe import is_serving
from tests.deploy.commands import DEPLOY, Command, systemd_command
from tests.deploy.running import Running, stopped_afterwards

pytestmark = pytest.mark.processes


def free_instance(*ports: str) -> str:
    """An instance digit such that the ports <ports><digit> are free; they stay reserved."""
    for instance in "123456789":
        if all(reserve(int(tens + instance)) for tens in ports):
            return instance
    raise AssertionError(f"of each of {ports} followed by 1 to 9 one is taken")


def local(command: Command, tmp_path: Path) -> list[str]:
    """What it runs, with this checkout's files."""
    program = Path(sys.executable).parent / "replog"
    arguments = [
        argument.replace("/etc/replog", str(DEPLOY / "config")).replace("/var/lib/replog", str(tmp_path))
        for argument in command.arguments
    ]
    return [str(program), *arguments]


def test_the_units_bring_up_a_controller_and_a_broker(tmp_path):
    controller = f"127.0.0.1:{free_port([])}"
    environment = {
        "REPLOG_CONTROLLER": controller,
        "REPLOG_CONTROLLERS": controller,
        "REPLOG_CONTROLLER_METRICS": f"127.0.0.1:{free_port([])}",
        "REPLOG_HOST": "127.0.0.1",
    }
    commands = [
        systemd_command("replog-controller.service", environment),
        systemd_command("replog-broker@.service", environment, free_instance("1909", "1940")),
    ]
    (tmp_path / "controller").mkdir()
    with stopped_afterwards() as started:
        make = systemd_command("replog-controller-format.service", environment)
        format_store = Running(local(make, tmp_path), tmp_path / "format.log")
        assert format_store.process.wait(100) == 0, format_store.log.read_text()
        for command in commands:
            assert command.program == "/opt/replog/bin/replog"
            process = Running(local(command, tmp_path), tmp_path / f"{command.source}.log")
            started.append(process)
            address = command.overrides()["listeners"]
            process.wait_until(lambda _, address=address: is_serving(address), f"health on {address}")
            metrics = command.overrides()["metrics.listener"]
            with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=30) as answer:
                assert b"process_cpu_seconds_total" in answer.read()
        for process in reversed(started):
            assert process.stop() == 0, process.log.read_text()
