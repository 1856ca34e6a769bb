"""Systems that replicate a log, with the same work for each: three replicas, acks of all, six partitions.

| File | What |
|---|---|
| `peer.py` | the interfaces of a system, and of a cluster of three brokers; records at a fixed rate |
| `replog.py` `replog_client.py` | ours, and its client as a separate process |
| `kafka.py` `kafka_client/` | Apache Kafka 4.1, and its own programs in one warm JVM |
| `raw.py` | raw sockets: the least that does the same |
| `rows.py` | the measurements and their table |
| `side_by_side.py` | `make bench`: all systems, in rounds |
| `quick.py` | `make bench-quick`: replog and raw sockets, compared with stored ratios |
"""
