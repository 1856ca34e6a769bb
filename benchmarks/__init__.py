"""Benchmarks, each a command of the Makefile that measures something else in the same run.

| File | What |
|---|---|
| `harness.py` | options, directories, tables; latency, CPU and memory |
| `beside.py` | a process beside the benchmark's own |
| `peers/` | replog, Apache Kafka and raw sockets: `make bench`, `make bench-quick` |
| `inside.py` | what a record costs inside |
| `partitions.py` | thousands of partitions beside Kafka |
| `attacks.py` `attackers.py` | clients that ask for much and take nothing |
| `soak.py` | hours of mixed load |
| `storage.py` `audit.py` | recovery and cleaning beside plain reads; audits beside other programs |
"""
