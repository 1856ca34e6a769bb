"""One case by its seed: what was made, and what each level of the audit finds. `python -m tests.audit SEED [DIR]`.

With DIR, the directories stay there, for `python -m spark_jobs.audit_replicas`, `replog log dump` and the like.
"""

import sys
import tempfile
from pathlib import Path

from spark_jobs.audit.audit import audit
from spark_jobs.session import spark_session
from tests.audit.cases import all_cases
from tests.audit.judge import findings_of, judge, report
from tests.audit.levels import LEVELS


def main(seed: int, root: Path) -> int:
    directories, (case,) = all_cases([seed], root)
    spark = spark_session("one case", "local[1]")
    bad = False
    for level in LEVELS:
        findings = findings_of(audit(spark, directories, level=level).findings)[case.topic]
        wrong = judge(case, findings, level)
        bad = bad or bool(wrong)
        print(f"level {level}: {'WRONG' if wrong else 'right'}\n{report(case, findings, wrong)}")
    spark.stop()
    return int(bad)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        sys.exit(main(int(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else place)))
