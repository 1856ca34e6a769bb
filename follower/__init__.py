"""The follower's half of the replication protocol, as pure objects.

| Looking for | File |
|---|---|
| what to fetch, what an answer does, pushed high watermarks | `partition.py` |
| all partitions of a leader: what to ask next, what to leave out, late answers (FT-6, FT-8) | `fetch_session.py` |
| how far to cut a log that diverged from its leader's (7.4) | `truncation.py` |
| what to do when the leader does not have the fetch offset (FT-19) | `out_of_range.py` |
"""
