"""What a process tells Prometheus, under the names that Kafka's own metrics have in its dashboards and alerts.

| Looking for | File |
|---|---|
| how long something took, as quantiles of the last minutes | `times.py` |
| what every process shows: the event loop, memory, descriptors | `process.py`, `loop_lag.py` |
| values by label | `families.py` |
| room on disks; when certificates end | `room.py`, `certificates.py` |
| the HTTP server that answers `/metrics` | `endpoint.py` |

What a broker counts is in `replog/server/broker/replicas/traffic.py`, what it shows in
`replog/server/broker/metrics.py`, what a controller shows in `replog/server/controller/metrics.py`."""
