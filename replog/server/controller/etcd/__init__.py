"""The metadata store on etcd, and leadership by a lease there.

| Looking for | File |
|---|---|
| calls to one of several etcds | `client.py` |
| keys, comparisons and operations of etcd | `keys.py` |
| commits, reads, cleaning | `store.py` |
| the leader's key and its lease | `election.py` |
| stored records that still count | `live_records.py` |"""
