"""The audit: do replicas agree? If not: where first, which replica is wrong, and what to do.

| Looking for | File |
|---|---|
| the order of the whole, and the result | `audit.py` |
| the Spark jobs of each level, and their rows | `passes.py` |
| the comparison as Spark SQL | `compare.py` |
| the comparison of compacted parts, record by record | `cleaned.py` |
| classes of faults, findings, the verdict | `findings.py` |
| one finding for each cause, from faults and differences | `resolve.py` |
| which replicas are wrong where they disagree | `votes.py` |
| results for machines: the summary (JSON), the findings (Parquet) | `results.py` |
| results for people: the page (HTML) | `report.py`, `templates/` |
| the state of each replica, and the page's map | `overview.py` |
| the page's plots, as SVG | `pictures.py` |
| numbers, and text that may be hostile | `text.py` |
| output to a terminal | `console.py` |
| a finding explained on a terminal | `explain_text.py` |
| the bytes around a finding | `evidence.py` |
| saved audits; a test that replicas are still the verified ones | `since.py` |
| the continuous audit, round by round, and its report to the cluster | `follow.py` |
"""
