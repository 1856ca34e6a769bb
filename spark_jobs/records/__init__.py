"""The log as a Spark source and sink: `format("replog")`, with the columns and options of Spark's own Kafka source.

| Looking for | File |
|---|---|
| the data source | `source.py` |
| its options | `options.py` |
| its columns | `schema.py` |
| a query's begin, end, progress and lag; checkpoints | `offsets.py` |
| the driver's requests to the cluster | `cluster.py` |
| the offsets of a trigger, and of each task | `planning.py` |
| batch queries | `batch_reader.py` |
| streaming queries | `stream_reader.py` |
| fetches of a task | `task.py` |
| the event loop of the clients | `loop.py` |
| fetched batches as Arrow batches | `decoding.py`, `columns.py` |
| lost records; records that cannot be shown | `losses.py` |
| the sink | `writer.py` |"""

from spark_jobs.records.offsets import offsets_behind_latest
from spark_jobs.records.source import ReplogSource, register

__all__ = ["ReplogSource", "offsets_behind_latest", "register"]
