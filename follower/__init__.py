"""The follower's half of the replication protocol, as pure objects.

| Looking for | File |
|---|---|
| what to fetch, what an answer does, how far a log is cut (7.4), pushed high watermarks | `partition_follower.py` |
| all partitions of a leader: the next request, late answers (FT-6, FT-8) | `fetch_session_handler.py` |
| a copy in another log directory of the same broker | `future_replica.py` |"""
