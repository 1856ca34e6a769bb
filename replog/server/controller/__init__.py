"""The controller process: it makes the decisions of `replog.controller` durable and sends them out.

| Looking for | File |
|---|---|
| the process, its server, its service | `process.py`, `server.py`, `service.py` |
| decide, make durable, apply, send, answer | `active_controller.py` |
| who follows the metadata, and what to send to each | `watchers.py` |
| its metrics for Prometheus | `metrics.py` |
| asking whether a broker is gone (CT-21), or there (CT-22) | `inquiries.py` |
| copies of it, and a store made from them and from brokers' disks | `restoring.py` |
| the store of metadata records, and the first of them | `store.py`, `sqlite_store.py`, `formatting.py` |
| the same on etcd, where several controllers share it, and their terms | `etcd/`, `server.py` |"""
