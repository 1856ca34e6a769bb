"""Replicas as tables: what a broker's log directory holds, read without trusting any of it.

| Looking for | File |
|---|---|
| the data sources `replog_replicas`, `replog_indexes`, `replog_batches`, `replog_epochs` | `sources.py` |
| what a replica holds, and the store that it is read through | `files.py` |
| the store of a log directory, ours or Apache Kafka's | `directories.py` |
| windowed reads of one log or index file | `scan.py` |
| every batch of a segment, against indexes and epochs | `segment_check.py` |
| the index entries of a segment, against the headers that they point at | `index_check.py` |
"""
