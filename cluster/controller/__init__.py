"""The controller: it alone decides who is alive, who leads, who is in sync, and where replicas are.

| Looking for | File |
|---|---|
| the process, its server, its service | `process.py`, `server.py`, `service.py` |
| decide, make durable, apply, tell, answer | `controller.py` |
| who follows the metadata, and what each still lacks | `watchers.py` |
| whether a broker that stopped following is gone (CT-21), and one that shall lead is there (CT-22) | `inquiries.py` |
| what is durable, and under which versions | `store.py`, `sqlite_store.py`, `records.py`, `current_records.py` |
| the state that decisions are made from | `cluster_state.py` |
| brokers register, and send heartbeats (CT-1 to CT-6) | `registration.py`, `broker_lifecycle.py` |
| what their coming and going does to partitions | `broker_events.py` |
| who leads (CT-8); elections on request (CT-11, CT-12) | `elections.py`, `leader_elections.py` |
| leaders' ISR proposals (§6.4), and leaders that resign (CT-22) | `alter_partition.py`, `resignations.py` |
| topics and where their replicas go (CT-18 to CT-20) | `topics.py`, `placement.py` |
| replicas that move to other brokers (CT-14 to CT-16) | `reassignments.py` |
| settings that change while the cluster runs | `configs.py` |
| several decisions in one commit | `changes.py` |
| blocks of producer ids | `producer_ids.py` |
"""
