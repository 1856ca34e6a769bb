"""An etcd for simulated clusters, on one host that loses nothing.

| Looking for | File |
|---|---|
| keys at revisions, transactions, leases | `state.py` |
| its services, the metadata of a new cluster | `service.py` |"""
