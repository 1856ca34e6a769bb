"""Apache Kafka with its own tests, and what stands in for its brokers in them (`java/`), compiled."""

import sys
from pathlib import Path

from spark_jobs.java import NoJava, find_java_home
from tests.foreign.sources import built
from tests.foreign.tools import NoTool, build, program, run
from tests.interop.kafka import VERSION

_SOURCES = Path(__file__).with_name("java")
_QUICK = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_TEST_TIMEOUT = "180s"  # of one test of Kafka's


def kafka_jars() -> Path:
    """Return the directory of all jars. Raises NoTool."""
    pom = _SOURCES / "pom.xml"
    maven = (program("mvn", "install Maven"), "-q", "-B", "-f", pom, f"-Dkafka.version={VERSION}")
    fetch = (*maven, "dependency:copy-dependencies")
    return built(f"kafka-{VERSION}", [pom], lambda work: run(work, *fetch, f"-DoutputDirectory={work}"))


def spark_jars() -> Path:
    """Return the directory of the jars of Spark's Kafka source. Raises NoTool."""
    pom = _SOURCES.with_name("clients") / "spark" / "pom.xml"
    maven = (program("mvn", "install Maven"), "-q", "-B", "-f", pom, "dependency:copy-dependencies")
    only = "spark-sql-kafka-0-10_2.13,spark-token-provider-kafka-0-10_2.13,kafka-clients,commons-pool2"
    words = f"-DincludeArtifactIds={only}"
    return built("spark-kafka", [pom], lambda work: run(work, *maven, f"-DoutputDirectory={work}", words))


def _java(name: str) -> Path:
    try:
        return find_java_home() / "bin" / name
    except NoJava as error:
        raise NoTool(str(error)) from None


def _stand_ins(jars: Path) -> Path:
    """Return the directory of the compiled stand-ins; of other sources it is another one. Raises NoTool."""
    files = list(_SOURCES.rglob("*.java"))
    words = (str(_java("javac")), "-d", ".", "-cp", f"{jars}/*", *map(str, files))
    return built("stand-ins", files, lambda work: build(work, *words))


def junit(directory: Path, reports: Path) -> list[str]:
    """Return the command that runs tests of Kafka's on clusters in `directory`; their names follow. Raises NoTool."""
    jars = kafka_jars()
    properties = {
        "replog.clusters": f"{sys.executable} -m tests.foreign.java_clusters {directory}",
        "junit.jupiter.extensions.autodetection.enabled": "true",
        "junit.jupiter.execution.timeout.default": _TEST_TIMEOUT,
        "org.slf4j.simpleLogger.defaultLogLevel": "error",
    }
    given = [f"-D{name}={value}" for name, value in properties.items()]
    classes = f"{_stand_ins(jars)}:{jars}/*"
    launcher = ["org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", f"--reports-dir={reports}"]
    return ["nice", str(_java("java")), *_QUICK, *given, "-cp", classes, *launcher]
