"""The Spark master and worker of compose.yaml find each other."""

import os
import sys
from pathlib import Path

import pytest

from replog.local_cluster.ports import free_port
from spark_jobs.java import find_java_home, shim_java_home
from tests.deploy.commands import compose_commands
from tests.deploy.running import Running, stopped_afterwards
from tests.spark_jobs.standalone import SHORT_LIVED

pytestmark = pytest.mark.spark


def test_the_worker_registers_with_the_master(tmp_path):
    programs = Path(sys.executable).parent
    port = str(free_port([]))
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "JAVA_HOME": str(shim_java_home(find_java_home())),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **SHORT_LIVED,
        "SPARK_MASTER_WEBUI_PORT": "0",
        "SPARK_WORKER_WEBUI_PORT": "0",
    }
    commands = {c.source.removeprefix("compose.yaml: "): c for c in compose_commands() if c.program == "spark-class"}
    here = {"spark-master": "127.0.0.1", "7077": port, "/tmp/spark": str(tmp_path / "work")}
    signs = {"spark-master": "I have been elected leader", "spark-worker": "Successfully registered with master"}
    with stopped_afterwards() as started:
        for name, sign in signs.items():
            arguments = list(commands[name].arguments)
            for there, value in here.items():
                arguments = [argument.replace(there, value) for argument in arguments]
            process = Running([str(programs / "spark-class"), *arguments], tmp_path / f"{name}.log", environment)
            started.append(process)
            process.wait_until(lambda output, sign=sign: sign in output, repr(sign))
