"""Spark jobs: replicas as tables, the audit that compares them, the log as a source and a sink.

| Looking for | File |
|---|---|
| the command, its options and exit codes | `audit_replicas.py` |
| the command of the continuous audit | `follow_replicas.py` |
| the command that explains a finding | `explain_finding.py` |
| what the audit's commands share: places of replicas, exit codes | `command_line.py` |
| options of all sources, sinks and tables: servers, TLS; our errors in Spark's output | `kafka_options.py` |
| a Spark session that is quiet and quick to start | `session.py` |
| finding the Java that Spark runs on | `java.py` |"""
