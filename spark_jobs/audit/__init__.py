"""The audit: whether replicas agree, and if not, where first, who is wrong and what to do.

| Looking for | File |
|---|---|
| what Spark runs, in which order | `audit.py` |
| one audit with a Spark of its own | `run.py` |
| the comparison as Spark SQL, and what its rows say | `compare.py`, `rows.py` |
| the same of what compaction has left, record by record | `cleaned.py` |
| classes of faults, findings, the verdict | `findings.py` |
| from raw faults and disagreements to findings: one cause, told once | `resolve.py` |
| what is left for machines: the summary (JSON), the findings (Parquet) | `results.py` |
| what is left for people: the page (HTML) | `report.py`, `templates/` |
| how each replica stands, and the page's map of them | `overview.py` |
| the page's plots, as SVG | `pictures.py` |
| leader epochs side by side, of what is collected of them | `lineage.py`, `epochs.py` |
| how numbers and hostile texts are written | `text.py` |
| what a person at a terminal sees, and how | `console.py`, `terminal.py` |
| the command that explains a finding | `explain.py`, `explain_text.py` |
| the bytes around a finding | `evidence.py` |
| saved audits, and what shows that replicas are still those that were verified | `since.py`, `landmarks.py` |
| the audit that goes on, round by round | `follow.py` |
"""
