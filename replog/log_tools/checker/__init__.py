"""The checker of one segment, here or read from a broker: `replog log verify` and the audit's long way both use it.

It finds the faults of the `.log` and its offset, time and digest index, each of one `Kind`. Nothing that is read is
trusted.

| Looking for | File |
|---|---|
| every batch, one after the other; the leader epoch checkpoint against them | `segment.py` |
| the entries of the indexes against the batches | `ticks.py` |
| the entries of the indexes by themselves | `indexes.py` |
| what can be wrong, and what it means | `findings.py` |"""
