"""Spark looks for a package of this name and finds the table `replog_replicas` here, without registration."""

from spark_jobs.replicas.sources import ReplicasSource as DefaultSource

__all__ = ["DefaultSource"]
