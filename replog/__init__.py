"""replog: a Kafka-faithful replicated log.

The library half of the project: it knows no process and no role. `leader/` and `follower/` hold the two halves
of the protocol, `cluster/` the processes that run them, `spark_jobs/` the audits. See ARCHITECTURE.md.
"""
