"""Spark looks for a package of this name and finds the table `replog_batches` here, without registration."""

from spark_jobs.replicas.sources import BatchesSource as DefaultSource

__all__ = ["DefaultSource"]
