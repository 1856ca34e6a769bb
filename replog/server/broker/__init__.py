"""The broker process: it moves bytes and time around the roles of `leader` and `follower`, on one event loop.

| Looking for | Where |
|---|---|
| the process; start and stop in order | `process.py`, `broker.py` |
| where it listens, and what is served there | `listening.py` |
| its settings, metadata and clocks, and the counts of its traffic | `context.py` |
| its metrics for Prometheus | `metrics.py` |
| its identity for the controller | `identity.py` |
| the link to the controller: registration, metadata, changes of roles, ISR proposals (ISR-8) | `control/` |
| hosted replicas, the requests that wait on them, and the memory of answers | `replicas/` |
| replication, the leader's side and the followers' | `replication/` |
| requests of clients: produces, fetches, look-ups | `clients/` |
| flushes, checkpoints, retention, moves between directories, audits | `disks/` |
| compaction, in a child process | `cleaning/` |"""
