"""The leader's half of the replication protocol, as pure objects.

| Looking for | File |
|---|---|
| appends, fetches, elections of one partition; where a consumer is sent (FE-19) | `partition_leader.py` |
| what the leader knows of each follower (ST-7 to ST-12) | `follower_state.py` |
| the in-sync set, its proposals (ISR-1 to ISR-11), and the high watermark (HW-2, HW-3) | `isr.py` |
| which brokers it hears (divergence 29), and when it gives its leadership away (ISR-20) | `failure_detector.py` |
| a stream of fetches: partitions named, answered and due (FE-9, FE-10, FE-17) | `fetch_session.py` |
| what a follower may read (FE-23), and a consumer | `follower_session.py`, `consumer_session.py` |
| the offset for a timestamp (FE-22) | `list_offsets.py` |
| requests that wait (PR-8, FT-23, FE-12) | `delayed_produce.py`, `delayed_fetch.py` |"""
