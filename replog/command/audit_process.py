"""Runs the Spark audit as a process of its own, and returns its verdict and its reports."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from replog.errors import ErrorCode

MODULE = "spark_jobs.audit_replicas"
TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class AuditRun:
    """One audit that ran to its end."""

    exit_code: int  # 0 consistent, 1 diverged, 3 inconclusive, 2 bad use
    summary: Mapping[str, Any]
    report: Path  # the HTML page
    seconds: float


def run_audit(directories: Mapping[int, Path], level: str, output: Path) -> AuditRun:
    """Audit the brokers' data directories into `output`. Raises UNKNOWN_SERVER_ERROR with the audit's last words."""
    output.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-P", "-m", MODULE, "--level", level, "--report-dir", str(output)]
    for broker_id, directory in directories.items():
        command += ["--replica", f"{broker_id}={directory}"]
    log = output / "audit.log"
    started = monotonic()
    try:
        with log.open("wb") as said:  # Ctrl-C comes to us alone, and the process ends with us; so does its JVM
            exit_code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                timeout=TIMEOUT_S,
                check=False,
            ).returncode
    except subprocess.TimeoutExpired:
        raise ErrorCode.REQUEST_TIMED_OUT.error(f"the audit did not end in {TIMEOUT_S:g} s") from None
    seconds = monotonic() - started
    summary, report = output / "summary.json", output / "report.html"
    if exit_code not in (0, 1, 3) or not summary.exists() or not report.exists():
        words = log.read_text(errors="replace").splitlines()[-12:]
        raise ErrorCode.UNKNOWN_SERVER_ERROR.error(
            f"the audit ended with status {exit_code} and without a report; the last lines of {log}:\n"
            + "\n".join(words)
        )
    return AuditRun(exit_code, json.loads(summary.read_text()), report, seconds)
