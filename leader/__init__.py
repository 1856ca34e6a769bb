"""The leader's half of the replication protocol, as pure objects.

| Looking for | File |
|---|---|
| appends, fetches, elections of one partition | `partition_leader.py` |
| what the leader knows of each follower (ST-7 to ST-12) | `follower_state.py` |
| the high watermark (HW-2, HW-3) | `high_watermark.py` |
| the in-sync set and its proposals (ISR-1 to ISR-11) | `isr.py` |
| the queue of proposals to the controller (ISR-8) | `alter_partition_queue.py` |
| which brokers it hears, and whether it is alone (divergence 29) | `failure_detector.py` |
| when it gives its leadership away (ISR-20) | `resignation.py` |
| a stream of fetches: partitions named, answered and due (FE-9, FE-10, FE-17) | `fetch_session.py` |
| what a follower may read (FE-23), and a consumer | `follower_session.py`, `consumer_session.py` |
| the replica that a consumer is sent to (FE-19) | `read_replica.py` |
| the offset for a timestamp (FE-22) | `list_offsets.py` |
| requests that wait (PR-8, FE-12, FT-23) | `delayed_produce.py`, `delayed_fetch.py`, `delayed_delete_records.py` |"""
