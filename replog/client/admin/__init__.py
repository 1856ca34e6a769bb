"""The admin client: topics, partitions, brokers, settings and permissions.

| File | |
|---|---|
| `calls.py` | how it asks: whom, with a deadline, and again after retriable errors |
| `topics.py` | make, change, delete and describe topics |
| `partitions.py` | offsets, elections, moves to other brokers, and changes of partitions |
| `brokers.py` | the cluster: its brokers, and what users may do, and how much |"""

from replog.client.admin.brokers import Brokers
from replog.client.admin.partitions import Partitions
from replog.client.admin.topics import Topics


class Admin(Topics, Partitions, Brokers):
    """Every call has a deadline, `timeout_ms`, and repeats retriable errors until then."""
