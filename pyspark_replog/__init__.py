"""Spark looks for packages of such a name, and finds the data source `replog` here: nobody need register it."""

from spark_jobs.records.source import ReplogSource as DefaultSource

__all__ = ["DefaultSource"]
