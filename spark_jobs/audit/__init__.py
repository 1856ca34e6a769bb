"""The audit: do replicas agree? If not: where first, which replica is wrong, and what to do.

| Looking for | File |
|---|---|
| the order of the whole, and the result | `audit.py` |
| the Spark jobs of each level, and their rows | `passes.py` |
| the comparison as Spark SQL, of compacted parts record by record | `compare.py` |
| classes of faults, findings, the verdict | `findings.py` |
| one finding for each cause, from faults and differences | `resolve.py` |
| which replicas are wrong where they disagree | `votes.py` |
| the report: the summary (JSON), the findings (Parquet), the page (HTML) | `report.py`, `templates/` |
| the state of each replica, and the page's map and plots | `overview.py` |
| numbers, and text that may be hostile; a finding explained on a terminal | `text.py` |
| output to a terminal | `console.py` |
| the bytes around a finding | `evidence.py` |
| saved audits; a test that replicas are still the verified ones | `since.py` |
| the continuous audit, round by round, and its report to the cluster | `follow.py` |
"""
