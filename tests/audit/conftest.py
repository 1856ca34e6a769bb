"""The one Spark session that all tests of audits share."""

from tests.spark_jobs.conftest import spark as spark
