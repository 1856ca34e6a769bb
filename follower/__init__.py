"""The follower's half of the replication protocol, as pure objects.

| Looking for | File |
|---|---|
| what to fetch, what an answer does, pushed high watermarks | `partition_follower.py` |
| all partitions of a leader: the next request, late answers (FT-6, FT-8) | `fetch_session_handler.py` |
| how far to cut a log that diverged from its leader's (7.4) | `truncation.py` |
| a copy in another log directory of the same broker | `future_replica.py` |"""
