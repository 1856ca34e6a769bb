"""One way to start Spark: quiet, quick, local by default; and what its errors say."""

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

from spark_jobs.java import check_user, find_java_home, put, shim_java_home

LOCAL = "local[*]"
_ADAPTIVE = "org.apache.spark.sql.execution.adaptive"
# Short-lived JVMs gain more from quick start than from the best machine code.
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
    """A session on `master`; default: that of `spark-submit`, or all cores of this machine.

    Needs no network for a local master. Python workers run this interpreter, except where Spark is configured for
    another one on a cluster. Raises NoJava where there is none that Spark runs on, or none that runs for this user.
    """
    check_user()
    # Workers find the wheel of `spark-submit --py-files` as they find a zip; Spark itself knows other suffixes only.
    SparkContext.PACKAGE_EXTENSIONS = {*SparkContext.PACKAGE_EXTENSIONS, ".whl"}
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    logging.getLogger().addFilter(_is_not_of_py4j)  # its traceback of a call that Java did not answer, which raises too
    builder = SparkSession.builder.appName(name)
    settings = {
        "spark.sql.ansi.enabled": "false",  # digests are compared by differences modulo 2^64
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.worker.reuse": "true",
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "65536",  # groups in memory; 128 means sorting
        "spark.sql.session.timeZone": "UTC",
        # It cuts out stages that brought no rows, and what was counted in them.
        "spark.sql.adaptive.optimizer.excludedRules": f"{_ADAPTIVE}.AQEPropagateEmptyRelation",
    }
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit started us: Java runs, and is set up as its user wants it
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
    """Let Java end without a word: until it knows that this process is gone, it would log whom it cannot reach."""
    context = SparkContext._active_spark_context
    if context is not None:
        with suppress(Exception):  # it may be ending
            jvm: Any = context._jvm
            log4j = jvm.org.apache.logging.log4j  # `setLogLevel` leaves loggers that have a level of their own
            log4j.core.config.Configurator.setAllLevels("", log4j.Level.OFF)


def _end_quietly(context: SparkContext) -> None:
    """When Java ends, or a query of a stream, it closes the connection over which accumulators come: that is no error,
    but `socketserver` would print a traceback."""
    server = context._accumulatorServer

    def handle_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            type(server).handle_error(server, request, client_address)

    server.handle_error = handle_error  # type: ignore[method-assign]


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def reason(error: Exception) -> str:
    """What went wrong, without Spark's stack traces if it is an OSError of a data source: that says enough. A call
    that Java did not answer says nothing of why."""
    if isinstance(error, Py4JError | ConnectionError) and not isinstance(error, Py4JJavaError):
        return "the Java that runs Spark has ended; was it killed, or memory short? `dmesg` may know"
    text = str(error)
    for name, message in reversed(re.findall(r"(?:^|: )(\w+): (?:\[Errno \d+\] )?(.+)$", text, re.MULTILINE)):
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, OSError):
            return str(message)
    return text


def _own_java(master: str) -> dict[str, str]:
    """Prepare the environment for a Java that we start, and say what it is to be told."""
    java_home = shim_java_home(find_java_home())
    os.environ["JAVA_HOME"] = str(java_home)
    local = master == "local" or master.startswith("local[")
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if local or "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    # Spark reads its logging settings before ours: a file is the only way to keep its start-up off the terminal.
    logging_file = java_home / "log4j2.properties"
    put(logging_file, _LOG4J)
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
