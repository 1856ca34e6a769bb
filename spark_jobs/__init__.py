"""What runs on Spark: replicas as tables, the audit that compares them, the log as a source and a sink.

| Looking for | File |
|---|---|
| the command, its options and exit codes | `audit_replicas.py` |
| the command of the audit that goes on | `follow_replicas.py` |
| what the audit's commands share: where replicas are, how a command ends | `command_line.py` |
| a Spark session that is quiet and quick to start | `session.py` |
| the Java that Spark runs on, and where it is found | `java.py` |
"""
