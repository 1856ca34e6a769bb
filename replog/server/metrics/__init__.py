"""Metrics for Prometheus, under the names of Kafka's own in its dashboards and alerts.

| Looking for | File |
|---|---|
| values by label; durations, as quantiles of the last minutes | `families.py` |
| metrics of every process: the event loop, memory, disks, certificates | `process.py` |
| the HTTP server that answers `/metrics` | `endpoint.py` |

A broker's counters are in `replog/server/broker/context.py`, its metrics in `replog/server/broker/metrics.py`,
a controller's in `replog/server/controller/metrics.py`."""
