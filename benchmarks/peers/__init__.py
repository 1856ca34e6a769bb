"""Systems that replicate a log, side by side: the same work for each, three replicas, acks of all, six partitions.

| File | What |
|---|---|
| `peer.py` | what a system does for a benchmark, and what a cluster of three brokers does besides |
| `replog.py` `replog_client.py` | ours, and its client in a process of its own |
| `kafka.py` `kafka_client/` | Apache Kafka 4.1, and its own programs in one warm JVM |
| `raw.py` | raw sockets: `benchmarks/raw_pipeline.py` |
| `rows.py` | what is measured, and how |
| `side_by_side.py` | `make bench`: all of them, in rounds |
| `table.py` | the medians of the rounds |
| `ratios.py` | replog beside the others: what is wanted, and what must not drop |
| `quick.py` | `make bench-quick`: replog and raw sockets, compared with what is stored |
"""
