"""One audit with a Spark of its own."""

import contextlib
from collections.abc import Callable, Sequence

from pyspark import StatusTracker

from spark_jobs.audit.audit import Audit, Where, audit
from spark_jobs.audit.since import Saved
from spark_jobs.session import spark_session


def run(
    where: Where,
    topics: Sequence[str],
    level: str,
    master: str | None,
    stage: Callable[[str], None],
    watch: Callable[[StatusTracker], None],
    since: Saved | None,
    *,
    save: bool,
) -> Audit:
    """As `audit`. `stage` gets the present stage, `watch` the object that knows Spark's progress. Raises NoJava, and
    what Spark raises."""
    stage("starting Spark")
    spark = spark_session("replog audit", master)
    watch(spark.sparkContext.statusTracker())
    try:
        return audit(spark, where, topics, level, stage, since, save=save)
    finally:
        stage("stopping Spark")
        with contextlib.suppress(Exception):  # the verdict stands, even if Spark ends with an error
            spark.stop()
