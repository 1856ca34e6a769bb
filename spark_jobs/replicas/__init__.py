"""Replicas as tables: what brokers and their log directories hold, read without trusting any of it.

| Looking for | File |
|---|---|
| the data sources `replog_replicas`, `replog_indexes`, `replog_batches`, `replog_epochs` | `sources.py` |
| what all data sources share: options, input partitions, Arrow batches | `readers.py` |
| what a replica holds, and the store that it is read through | `files.py` |
| the store of a log directory, ours or Apache Kafka's | `directories.py` |
| the store of a running broker, over gRPC | `brokers.py` |
| what is said of a whole replica | `describe.py` |
| classes of faults | `faults.py` |
| windowed reads of one log | `scan.py` |
| the entries of index files | `index_files.py` |
| every batch of a segment, against indexes and epochs | `segment_check.py`, `ticks.py` |
| the same in parts, for segments that are large | `parts.py` |
| why what moves while it is read is no damage | `moving.py` |
| the index entries of a segment, against the headers that they point at | `index_check.py` |
| the data source of the audit: one pass over segments, of one kind of check | `checks.py` |
| batches summed up by offset, and the short way through a segment that is sound | `blocks.py`, `sound.py` |
| index entries summed up by offset, and the short way through sound ones | `index_blocks.py` |
| what digest indexes say of an offset | `digests.py` |
| the records that compaction has left in a segment | `cleaned.py` |
| how many bytes were read | `counting.py` |
"""
