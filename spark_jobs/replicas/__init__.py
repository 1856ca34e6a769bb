"""Replicas as tables, from brokers or their log directories. Nothing that is read is trusted.

| Looking for | File |
|---|---|
| the data sources `replog_replicas`, `replog_batches`, `replog_epochs`; what sources share | `sources.py` |
| the files of a replica, and the store that they are read from | `files.py` |
| the store of a log directory, ours or Apache Kafka's | `directories.py` |
| the store of a running broker, over gRPC | `brokers.py` |
| the description of a whole replica | `describe.py` |
| classes of faults | `faults.py` |
| every batch of a segment, judged by `replog.log_tools.checker`; what the short ways share | `segment_check.py` |
| the index entries of a segment, against batch headers: as points, or hashed as blocks | `index_check.py` |
| the data source of the audit: one pass over segments, of one kind of check | `checks.py` |
| batches by offset, and the fast way through a sound segment | `blocks.py` |
| transaction indexes and producer snapshots | `producers.py` |
| digest indexes at an offset | `digests.py` |
| the records that compaction has left in a segment | `cleaned.py` |
"""
