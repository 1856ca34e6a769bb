"""The command: bad use, exit codes, outputs."""

import json
import subprocess
import sys

import pytest

from spark_jobs.audit.findings import EXIT_CODES
from spark_jobs.audit_replicas import main


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--replica one=/tmp --replica 2=/tmp", "not ID=DIR"),
        ("--replica /tmp", "not ID=DIR"),
        ("--replica 1=", "not ID=DIR"),
        ("--replica 1={dir}/1, --replica 2={dir}/2", "not ID=DIR"),
        ("--replica 1={dir}/1 --replica 2={dir}/2,{dir}/1", "this directory is given twice"),
        ("--replica 1={dir}/1 --replica 1={dir}/2", "replica 1 is given twice"),
        ("--replica 1={dir}/1 --replica 2={dir}/1", "this directory is given twice"),
        ("--replica 1={dir}/1 --replica 2={dir}/missing", "missing: No such file or directory"),
        ("--replica 1={dir}/1 --replica 2={dir}/\udcff", "not UTF-8"),
        ("--replica 1={dir}/1", "give two or more"),
        ("{both} --topic nope", "they have: orders"),
        ("{both} --topic a/b", "characters other than"),
        ("--replica 1={dir}/1/orders-0 --replica 2={dir}/2/orders-0", "brokers' log directories"),
        ("{both} --report-dir {dir}/meta", "cannot be created: File exists"),
        ("{both} --report-dir {dir}/1/audit", "nothing is written to"),
        ("{both} --save {dir}/2/saved", "nothing is written to"),
        ("{both} --save {dir}", "is a directory; name a file"),
        ("{both} --save {dir}/no/where", "is missing or cannot be"),
        ("{both} --since {dir}", "Is a directory; give the file that"),
        ("{both} --since {dir}/meta", "it is not JSON, or was cut"),
        ("--replica 1={dir}/1 --replica 2={dir}/../{name}/1", "given twice, as"),
        ("--replica 1={dir}/1 --replica 2={dir}/link", "a replica always agrees with itself"),
        ("--replica 1={dir}/1 --replica 9999999999={dir}/2", "id is at most 2147483647"),
        ("--bootstrap-server localhost", "'localhost' is not host:port"),
        ("{both} --bootstrap-server localhost:1", "are two ways to say it"),
        ("", "say which replicas"),
    ],
)
def test_bad_use_names_the_argument_and_exits_2(cluster, capsys, monkeypatch, given, message):
    root = cluster.directories[1].parent
    (root / "meta").write_text("")
    (root / "link").symlink_to(root / "1")
    monkeypatch.delenv("REPLOG_BOOTSTRAP_SERVER", raising=False)
    both = f"--replica 1={root}/1 --replica 2={root}/2"
    assert main(given.format(both=both, dir=root, name=root.name).split()) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("given", [["--replica", "1=/tmp", "--level", "shallow"], ["--unknown"], ["--lev", "deep"]])
def test_what_cannot_be_parsed_exits_2(given, capsys):
    assert main(given) == 2
    assert "Usage: replog audit run" in capsys.readouterr().err


def test_exit_codes_are_those_promised(capsys):
    assert EXIT_CODES == {"CONSISTENT": 0, "DIVERGED": 1, "INCONCLUSIVE": 3}
    assert main(["--help"]) == 0
    told = capsys.readouterr().out
    assert all(f"{verdict}, {code}" in told for verdict, code in EXIT_CODES.items()), told


@pytest.mark.spark
def test_the_command_audits_with_a_spark_of_its_own_and_leaves_reports(cluster, tmp_path):
    log = min(cluster.path(2, "orders").glob("*.log"))
    log.unlink()
    log.mkdir()
    reports = tmp_path / "reports"
    command = [sys.executable, "-m", "spark_jobs.audit_replicas", *cluster.options(), "--format", "json"]
    done = subprocess.run(
        [*command, "--master", "local[2]", "--level", "deep", "--report-dir", str(reports)],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout) == json.loads((reports / "summary.json").read_text())
    assert json.loads(done.stdout)["verdict"] == "INCONCLUSIVE"
    assert done.stderr == "", "Spark's own messages must stay off the terminal"
    assert "INCONCLUSIVE" in (reports / "report.html").read_text()
    assert list((reports / "findings.parquet").glob("*.parquet"))
