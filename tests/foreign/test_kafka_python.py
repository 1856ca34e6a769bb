"""kafka-python's own integration suite, against one broker, as its fixtures start Kafka.

Left out are its tests of SASL and TLS, which start a Kafka of their own.
"""

import shutil
from pathlib import Path

import pytest

from tests.foreign.judge import Judge
from tests.foreign.suites import run_suite
from tests.foreign.tools import sdist, wheels
from tests.interop.kafka import VERSION as KAFKA_VERSION

pytestmark = pytest.mark.foreign

JUDGE = Judge("kafka_python")
TESTS = [f"test/integration/test_{name}_integration.py" for name in ("admin", "consumer", "producer")]
CODECS = ("python-snappy==0.7.3", "lz4==4.4.5", "zstandard==0.25.0")
CLUSTER = {"brokers": 1, "partitions": 4, "guarded": True}  # as its fixtures start Kafka
# Its authors' packet lacks this module, of which an outside broker needs one class.
SERVICE = """\
class SpawnedService:
    pass


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    close = dump_logs = open
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client and its tests, which write beside themselves."""
    home = tmp_path_factory.mktemp("kafka-python") / "home"
    shutil.copytree(sdist("kafka-python", "3.0.12"), home)
    (home / "test" / "__init__.py").touch()
    (home / "test" / "service.py").write_text(SERVICE)
    return home


def test_its_integration_suite_does_as_listed(home, cluster):
    env = {
        "KAFKA_URI": f"kafka://{cluster.bootstrap.split(',')[0]}",
        "KAFKA_VERSION": KAFKA_VERSION,
        "KAFKA_ROOT": str(home),
    }
    JUDGE.check(run_suite(JUDGE.name, home, TESTS, [wheels(*CODECS)], env))
