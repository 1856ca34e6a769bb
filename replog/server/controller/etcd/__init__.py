"""The metadata store on etcd, and leadership by a lease there.

| Looking for | File |
|---|---|
| calls to one of several etcds; keys, comparisons and operations | `client.py` |
| commits, reads, cleaning; stored records that still count | `store.py` |
| the leader's key and its lease | `election.py` |"""
