"""The broker: it moves bytes and time around the roles of `leader` and `follower`, on one event loop.

| Looking for | File |
|---|---|
| the process; start and stop in order | `process.py`, `broker.py` |
| registration, heartbeats, controlled shutdown (CT-1 to CT-6, CT-13) | `lifecycle.py` |
| who it is, when a controller asks (CT-21) | `presence_service.py` |
| the controller's metadata, and roles that follow from it | `metadata_watch.py`, `role_changes.py` |
| the replicas hosted, and one of them | `replica_manager.py`, `partition.py` |
| what clients ask; a produce; a consumer's fetch | `log_service.py`, `produce.py`, `consume.py` |
| requests that wait, and answers on their way | `delayed.py`, `outbox.py` |
| how much memory all answers may take; offsets by time | `budget.py`, `look_ups.py` |
| records that are on the disk alone (divergence 34) | `cold_reads.py` |
| replication, the leader's side and the followers' | `replica_service.py`, `fetcher.py`, `fetcher_manager.py` |
| ISR proposals on their way to the controller (ISR-8) | `alter_partition.py` |
| log directories, and moves between them (7.7) | `log_dirs_service.py`, `moves.py` |
| retention, checkpoints; flushes and truncations, one for all that ask | `housekeeping.py`, `log_flusher.py` |
| compaction, by a process of its own | `cleaning.py`, `cleaning_process.py`, `cleaning_child.py` |
| what that process is asked | `cleaning_requests.py` |
| producer ids for clients | `producer_ids.py` |
| replicas as they lie on disk, for audits | `inspection_service.py` |
| blocking work in threads; work that gives way to clients | `threads.py`, `pace.py` |
"""
