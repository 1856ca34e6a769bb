"""The controller's decisions, as pure objects: who is alive, who leads, who is in sync, where replicas are.

| Looking for | File |
|---|---|
| every decision, and the state that it is made from | `cluster_state.py` |
| the changes to commit, and the answer that follows | `decision.py` |
| brokers register, send heartbeats (CT-1 to CT-6), join, and are forgotten | `registration.py`, `broker_lifecycle.py` |
| what broker events change in partitions | `broker_events.py` |
| who leads (CT-8), on request (CT-11), or where nobody has everything (CT-12, CT-30) | `elections.py`, `evidence.py` |
| leaders' ISR proposals (§6.4), and leaders that resign (CT-22) | `alter_partition.py` |
| topics and where their replicas go (CT-18 to CT-20) | `topics.py` |
| replicas that move to other brokers (CT-14 to CT-16) | `reassignments.py` |
| the last changes of each partition, for people | `partition_history.py` |
| what an audit has reported last | `audits.py` |
| settings that change while the cluster runs | `configs.py` |
| who may do what: ACLs | `acls.py` |
| metadata from an older copy and from brokers' disks | `restoration.py` |"""
