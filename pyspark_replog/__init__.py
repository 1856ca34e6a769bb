"""Spark looks for a package of this name and finds the data source `replog` here, without registration."""

from spark_jobs.records.source import ReplogSource as DefaultSource

__all__ = ["DefaultSource"]
