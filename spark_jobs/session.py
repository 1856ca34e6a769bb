"""One way to start Spark: quiet, quick, local unless told otherwise."""

import logging
import os
import sys
import warnings

from pyspark.sql import SparkSession

from replog.log.files import write_atomically
from spark_jobs.java import find_java_home, shim_java_home

LOCAL = "local[*]"
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
logger.tasks.name = org.apache.spark
logger.tasks.level = error
logger.source.name = org.apache.spark.sql.execution.python
logger.source.level = error
"""


def spark_session(name: str, master: str = LOCAL) -> SparkSession:
    """A session on `master`; raises NoJava where there is none that Spark runs on.

    Needs no network for a local master. Python workers run this interpreter.
    """
    java_home = shim_java_home(find_java_home())
    os.environ["JAVA_HOME"] = str(java_home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    local = master == "local" or master.startswith("local[")
    if local:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Spark reads its logging settings before ours: a file is the only way to keep its start-up off the terminal.
    logging_file = java_home / "log4j2.properties"
    write_atomically(logging_file, _LOG4J.encode())
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    builder = SparkSession.builder.appName(name).master(master)
    settings = {
        "spark.driver.extraJavaOptions": f"{_JAVA_OPTIONS} -Dlog4j2.configurationFile={logging_file.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.ansi.enabled": "false",  # digests are compared by differences modulo 2^64
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.worker.reuse": "true",
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "65536",  # groups in memory; 128 means sorting
        "spark.sql.session.timeZone": "UTC",
    }
    if local:
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
            "spark.default.parallelism": str(max(2, os.cpu_count() or 2)),
        }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
