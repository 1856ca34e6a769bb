"""Starts Spark, quietly, quickly and by default locally, and explains its errors."""

import builtins
import logging
import os
import re
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark_jobs.java import check_user, find_java_home, shim_java_home

LOCAL = "local[*]"
_ADAPTIVE = "org.apache.spark.sql.execution.adaptive"
# A short-lived JVM gains more from a quick start than from the best machine code.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %p %c{1}: %m%n
# Without a level of its own Spark says on stderr that it sets one.
logger.spark.name = org.apache.spark
logger.spark.level = error
"""


def spark_session(name: str, master: str | None = None) -> SparkSession:
    """Return a session on `master`; default: that of `spark-submit`, or all cores of this machine.

    A local master needs no network. Python workers run this interpreter, unless Spark on a cluster is configured for
    another one. Raises NoJava if there is none that Spark runs on, or none that runs for this user.
    """
    check_user()
    # Otherwise Spark, which does not know this suffix, would not put the wheel of `--py-files` on workers' paths.
    SparkContext.PACKAGE_EXTENSIONS = {*SparkContext.PACKAGE_EXTENSIONS, ".whl"}
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    logging.getLogger().addFilter(_is_not_of_py4j)  # it logs a traceback when Java does not answer, and raises as well
    builder = SparkSession.builder.appName(name)
    settings = {
        "spark.sql.ansi.enabled": "false",  # digests are compared by differences modulo 2^64
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.worker.reuse": "true",
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "65536",  # groups; with its own 128 Spark sorts
        "spark.sql.session.timeZone": "UTC",
        # This rule drops stages without rows, and the counts of their bytes with them.
        "spark.sql.adaptive.optimizer.excludedRules": f"{_ADAPTIVE}.AQEPropagateEmptyRelation",
    }
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit started us: Java runs with its user's settings
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        settings |= _own_java(master or LOCAL)
        master = master or LOCAL
    if master is not None:
        builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    _end_quietly(session.sparkContext)
    return session


def hush() -> None:
    """Silence Java's log: until Java knows that this process has ended, it would log that it cannot reach it."""
    context = SparkContext._active_spark_context
    if context is not None:
        with suppress(Exception):  # it may be ending
            jvm: Any = context._jvm
            log4j = jvm.org.apache.logging.log4j  # `setLogLevel` leaves loggers that have a level of their own
            log4j.core.config.Configurator.setAllLevels("", log4j.Level.OFF)


def _end_quietly(context: SparkContext) -> None:
    """Ignore that Java closes the connection for accumulators, as it does when it or a stream's query ends: otherwise
    `socketserver` prints a traceback."""
    server = context._accumulatorServer

    def handle_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            type(server).handle_error(server, request, client_address)

    server.handle_error = handle_error  # type: ignore[method-assign]


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def reason(error: Exception) -> str:
    """Return an error's text; only the message, without Spark's stack traces, for an OSError of a data source. If Java
    did not answer, the reason is not known, and the text says what it may be."""
    if isinstance(error, Py4JError | ConnectionError) and not isinstance(error, Py4JJavaError):
        return "the Java that runs Spark has ended; was it killed, or memory short? `dmesg` may know"
    text = str(error)
    for name, message in reversed(re.findall(r"(?:^|: )(\w+): (?:\[Errno \d+\] )?(.+)$", text, re.MULTILINE)):
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, OSError):
            return str(message)
    return text


def _own_java(master: str) -> dict[str, str]:
    """Prepare the environment for a Java that we start, and return its settings."""
    java_home = shim_java_home(find_java_home())
    os.environ["JAVA_HOME"] = str(java_home)
    local = master == "local" or master.startswith("local[")
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if local or "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    # Spark reads logging settings from a file before it reads ours, and would print its start-up otherwise.
    logging_file = java_home / "log4j2.properties"
    logging_file.write_text(_LOG4J)
    settings = {
        "spark.driver.extraJavaOptions": f"{_JAVA_OPTIONS} -Dlog4j2.configurationFile={logging_file.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if local:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        cores = str(max(2, os.cpu_count() or 2))
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": cores,
            "spark.default.parallelism": cores,
        }
    return settings
