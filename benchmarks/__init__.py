"""Benchmarks, each a command of the Makefile that measures something else in the same run.

| File | What |
|---|---|
| `harness.py` | options, directories, tables; latency, CPU and memory; processes beside the benchmark's own |
| `peers/` | replog, Apache Kafka and raw sockets: `make bench`, `make bench-quick` |
| `inside.py` | what a record costs inside |
| `partitions.py` | thousands of partitions beside Kafka |
| `attacks.py` `attackers.py` | clients that ask for much and take nothing |
| `logs.py` | recovery, cleaning and audits, beside programs that only read the same logs |
"""
