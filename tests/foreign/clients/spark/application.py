"""An application with Spark's own Kafka source and sink.

`application.py ADDRESSES JARS DIRECTORY` runs every check below, in turn, and prints what came of each as one JSON
object: "" is good. The topic `numbers` has the numbers from 0 on, as text, in three partitions."""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_jobs.session import spark_session

NUMBERS = 3000


def main(bootstrap: str, jars: Path, directory: Path) -> None:
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(map(str, sorted(jars.glob('*.jar'))))} pyspark-shell"
    spark = spark_session("kafka", "local[2]")

    def rows(topic: str, **options: str) -> DataFrame:
        named = {name.replace("_", "."): value for name, value in options.items()}
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
        return reader.options(**named).load()

    def numbers(frame: DataFrame) -> tuple[Any, ...]:
        value = f.col("value").cast("string").cast("long")
        return tuple(frame.agg(f.count("*"), f.sum(value)).first() or ())

    def batch() -> None:
        frame = rows("numbers")
        expect(numbers(frame), (NUMBERS, NUMBERS * (NUMBERS - 1) // 2))
        expect(frame.select("partition").distinct().count(), 3)

    def from_offsets() -> None:
        ends = rows("numbers").groupBy("partition").agg(f.max("offset").alias("last")).collect()
        starts = {"numbers": {str(row["partition"]): row["last"] for row in ends}}
        expect(rows("numbers", startingOffsets=json.dumps(starts)).count(), 3)

    def from_timestamp() -> None:
        middle = rows("numbers").where("partition = 0").agg(f.max(f.unix_millis("timestamp"))).first()
        assert middle is not None
        expect(rows("numbers", startingTimestamp=str(middle[0])).where("partition = 0").count() >= 1, True)

    def written() -> None:
        frame = spark.range(500).select(f.col("id").cast("string").alias("value"))
        frame.write.format("kafka").options(**{"kafka.bootstrap.servers": bootstrap, "topic": "written"}).save()
        expect(numbers(rows("written")), (500, 500 * 499 // 2))

    def headers() -> None:
        one = f.array(f.struct(f.lit("from").alias("key"), f.lit(b"spark").alias("value")))
        frame = spark.range(1).select(f.lit("v").alias("value"), f.lit("k").alias("key"), one.alias("headers"))
        frame.write.format("kafka").options(**{"kafka.bootstrap.servers": bootstrap, "topic": "headed"}).save()
        row = rows("headed", includeHeaders="true").first()
        assert row is not None
        expect(
            (bytes(row["key"]), [(h["key"], bytes(h["value"])) for h in row["headers"]]), (b"k", [("from", b"spark")])
        )

    def stream() -> None:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "numbers", "startingOffsets": "earliest"}
        frame = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger="1000").load()
        sink = {"kafka.bootstrap.servers": bootstrap, "topic": "streamed"}
        place = tempfile.mkdtemp(dir=directory)
        writer = frame.select("value").writeStream.format("kafka").options(**sink, checkpointLocation=place)
        query = writer.trigger(availableNow=True).start()
        expect(query.awaitTermination(180), True)
        expect(numbers(rows("streamed")), (NUMBERS, NUMBERS * (NUMBERS - 1) // 2))

    checks: list[Callable[[], None]] = [batch, from_offsets, from_timestamp, written, headers, stream]
    said = {}
    for check in checks:
        said[check.__name__.replace("_", " ")] = ""
        try:
            check()
        except Exception as error:  # noqa: BLE001 (it is what is told)
            said[check.__name__.replace("_", " ")] = str(error).split("JVM stacktrace")[0][:500] or repr(error)
    print(json.dumps(said), flush=True)
    spark.stop()


def expect(got: object, wanted: object) -> None:
    if got != wanted:
        raise AssertionError(f"{got}, not {wanted}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
