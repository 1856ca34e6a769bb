"""Metrics for Prometheus, under the names of Kafka's own in its dashboards and alerts.

| Looking for | File |
|---|---|
| durations, as quantiles of the last minutes | `times.py` |
| metrics of every process: the event loop, memory, descriptors | `process.py`, `loop_lag.py` |
| values by label | `families.py` |
| room on disks; when certificates end | `room.py`, `certificates.py` |
| the HTTP server that answers `/metrics` | `endpoint.py` |

A broker's counters are in `replog/server/broker/traffic.py`, its metrics in `replog/server/broker/metrics.py`,
a controller's in `replog/server/controller/metrics.py`."""
