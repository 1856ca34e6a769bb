"""Metrics for Prometheus, under the names of Kafka's own in its dashboards and alerts: those of every process.

A broker's are in `replog/server/broker/metrics.py`, a controller's in `replog/server/controller/metrics.py`."""
