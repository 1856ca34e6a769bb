"""`replog console`: a page that shows a running cluster, live and read only.

| Looking for | File |
|---|---|
| what viewers see, and what is new since they last heard | `board.py` |
| a partition's state, and a change of it, in words | `partitions.py` |
| the one poll for all viewers | `watcher.py` |
| the pages, who may look, and the stream of events | `app.py`, `guard.py`, `events.py` |
| the last audit's report | `audit_report.py` |
| the certificates of its port | `certificates.py` |
| the process | `process.py` |"""
