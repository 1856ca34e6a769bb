"""The data source `replog`. Readers and writers are imported where they are used: Spark looks sources up often."""

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from replog.errors import ErrorCode
from spark_jobs.kafka_options import reported_first


class ReplogSource(DataSource):
    """`format("replog")`: the columns and options of Spark's own Kafka source and sink."""

    @classmethod
    def name(cls) -> str:
        return "replog"

    @reported_first()
    def schema(self) -> StructType:
        from spark_jobs.records.columns import spark_schema
        from spark_jobs.records.options import include_headers

        return spark_schema(include_headers(self.options))

    @reported_first()
    def reader(self, schema: StructType) -> DataSourceReader:
        from spark_jobs.records.cluster import reach, run
        from spark_jobs.records.options import source_options
        from spark_jobs.records.readers import BatchQueryReader

        self._check(schema)
        options = source_options(self.options, streaming=False)
        run(reach(options))
        return BatchQueryReader(options)

    @reported_first()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        from spark_jobs.records.cluster import reach, run
        from spark_jobs.records.options import source_options
        from spark_jobs.records.readers import StreamReader

        self._check(schema)
        options = source_options(self.options, streaming=True)
        run(reach(options))
        return StreamReader(options)

    @reported_first()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from spark_jobs.records.options import sink_options
        from spark_jobs.records.writer import BatchWriter

        if overwrite:
            raise ErrorCode.INVALID_CONFIG.error("a log cannot be overwritten; write with mode append")
        return BatchWriter(sink_options(self.options), schema)

    @reported_first()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from spark_jobs.records.options import sink_options
        from spark_jobs.records.writer import StreamWriter

        # Output mode complete sets `overwrite`; as in Spark's Kafka sink, each trigger then writes the whole result.
        return StreamWriter(sink_options(self.options), schema)

    def _check(self, schema: StructType) -> None:
        if schema != self.schema():
            message = f"the columns are {self.schema().simpleString()}; leave the schema out"
            raise ErrorCode.INVALID_CONFIG.error(message)


def register(spark: SparkSession) -> None:
    """Make `format("replog")` known to `spark`."""
    spark.dataSource.register(ReplogSource)
