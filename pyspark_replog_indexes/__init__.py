"""Spark looks for a package of this name and finds the table `replog_indexes` here, without registration."""

from spark_jobs.replicas.sources import IndexesSource as DefaultSource

__all__ = ["DefaultSource"]
