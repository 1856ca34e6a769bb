"""Spark looks for a package of this name and finds the table `replog_epochs` here, without registration."""

from spark_jobs.replicas.sources import EpochsSource as DefaultSource

__all__ = ["DefaultSource"]
