"""Small applications with clients whose own tests need containers: sarama, in Go, KafkaJS, in JavaScript, and Spark.

Each is one program (`clients/`) that tries everything in turn, and prints what came of it.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from replog.client import SyncAdmin, SyncProducer
from tests.foreign.judge import Judge, Said, Verdict
from tests.foreign.kafka_jars import spark_jars
from tests.foreign.sources import built
from tests.foreign.tools import build, program, run

pytestmark = pytest.mark.foreign

SOURCES = Path(__file__).with_name("clients")
TIMEOUT_S = 900
NUMBERS = 3000  # that Spark reads


def _sarama(work: Path) -> None:
    shutil.copytree(SOURCES / "sarama", work, dirs_exist_ok=True)
    build(work, program("go", "install Go"), "build", "-o", "client", ".")


def _kafkajs(work: Path) -> None:
    shutil.copytree(SOURCES / "kafkajs", work, dirs_exist_ok=True)
    run(work, program("npm", "install Node.js"), "ci", "--no-audit", "--no-fund", "--ignore-scripts")


def _check(name: str, *command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    said = {
        one: Said(Verdict.FAILS, why) if why else Said(Verdict.PASSES) for one, why in json.loads(done.stdout).items()
    }
    Judge(name).check(said)


def test_an_application_with_sarama_does_as_listed(cluster):
    home = built("sarama", (SOURCES / "sarama").iterdir(), _sarama)
    _check("sarama", home / "client", cluster.bootstrap)


def test_an_application_with_kafkajs_does_as_listed(cluster):
    node = program("node", "install Node.js")
    home = built("kafkajs", (SOURCES / "kafkajs").iterdir(), _kafkajs)
    _check("kafkajs", node, home / "client.js", cluster.bootstrap)


def test_an_application_with_sparks_kafka_source_does_as_listed(cluster, tmp_path):
    jars = spark_jars()
    with SyncAdmin(cluster.bootstrap) as admin, SyncProducer(cluster.bootstrap, compression="zstd") as producer:
        admin.create_topic("numbers", 3, 3)
        for partition in range(3):
            producer.send_many("numbers", [b"%d" % one for one in range(partition, NUMBERS, 3)], partition=partition)
    program_file = SOURCES / "spark" / "application.py"
    _check("spark", sys.executable, program_file, cluster.bootstrap, jars, tmp_path)
