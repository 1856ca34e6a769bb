"""The log as a Spark source and sink: `format("replog")`, with the columns and options of Spark's own Kafka source.

| Looking for | File |
|---|---|
| the data source | `source.py` |
| its options | `options.py` |
| a query's begin, end, progress and lag; checkpoints | `offsets.py` |
| requests to the cluster, and the event loop of the clients | `cluster.py` |
| batch and streaming queries | `readers.py` |
| the offsets of a trigger and of each task, and its fetches | `task.py` |
| columns; fetched batches as Arrow batches; records that cannot be shown | `columns.py`, `decoding.py` |
| the sink | `writer.py` |"""

from spark_jobs.records.offsets import offsets_behind_latest
from spark_jobs.records.source import ReplogSource, register

__all__ = ["ReplogSource", "offsets_behind_latest", "register"]
