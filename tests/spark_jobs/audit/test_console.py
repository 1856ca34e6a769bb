"""What a terminal shows of an audit."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spark_jobs.audit.console import Console, Tasks
from spark_jobs.audit.findings import DIVERGED
from spark_jobs.audit.report import finding_record
from spark_jobs.audit.text import print_explanation, print_findings
from tests.spark_jobs.audit import samples


def test_nothing_is_cut_or_folded_in_a_pipe(capsys):
    Console().table(samples.sample(), Path("/tmp/an audit"))
    told = capsys.readouterr().err
    lines = told.splitlines()
    assert any(
        line.split() == ["flights-3", "1", "lagging", "0", "1469860", "1469910", "141.1", "MB"] for line in lines
    )
    assert "wrong   replica 2: replicas 1 and 3 agree, replica 2 is alone" in lines
    assert "about   replica 2: replicas 1 and 3 agree, replica 2 is alone" in lines, "what cannot be read is not wrong"
    assert "wrong   nothing tells which replica: the replicas are evenly split and none contradicts itself" in lines
    assert "the bytes: replog audit explain --report-dir '/tmp/an audit' N" in lines
    assert "\x1b" not in told


def test_what_is_wrong_comes_first_and_what_is_well_is_one_line(capsys):
    Console().table(samples.sample(), None)
    lines = capsys.readouterr().err.splitlines()
    assert lines[1].startswith("1. VALUE_MISMATCH flights-1")
    states = [line.split()[2] for line in lines if re.match(r"(flights|payments|audit)\S+ +\d ", line)]
    assert states == ["fault"] * 6 + ["unreadable"] + ["lagging"] * 2
    assert "17 replicas of 8 partitions: ok, 1.8 GB" in lines
    assert "unread  payload, headers that no index points at, transaction indexes and producer snapshots" in " ".join(
        lines
    )
    Console().table(samples.consistent(), None)
    assert capsys.readouterr().err.splitlines() == [
        "6 replicas of 2 partitions: ok, 853.8 MB",
        "2 partitions compared at level deep, 0 findings",
    ]


@pytest.mark.parametrize(("columns", "wide"), [(100, True), (60, False)])
def test_a_narrow_terminal_gets_fewer_columns_and_a_margin(columns, wide, monkeypatch, capsys):
    for name, value in (("TTY_COMPATIBLE", "1"), ("NO_COLOR", "1"), ("COLUMNS", str(columns)), ("LINES", "50")):
        monkeypatch.setenv(name, value)
    Console().table(samples.sample(), None)
    told = re.sub(r"\x1b\[[01]m", "", capsys.readouterr().err)
    assert "\x1b" not in told, "bold is no colour; anything else is"
    assert ("log start" in told) == wide
    assert re.search(r"^flights-3 +1 +lagging", told, re.MULTILINE)
    assert [line for line in told.splitlines() if len(line) > columns] == []
    assert ("\n        alone\n" in told) != wide, "what is folded keeps its margin"


def test_words_from_disks_are_escaped_before_a_terminal(capsys):
    """Who names a file could otherwise write over a line."""
    result = samples.sample(hostile="half \udcff mirrored \u202etxt.exe \x1b[31m new\rline [red]")
    Console().table(result, None)
    found = {"number": 1, **finding_record(result.findings[0])}
    print_findings({"verdict": DIVERGED}, [found])
    note = {"replica": 1, "fields": None, "note": found["why"]}
    print_explanation({**found, "meaning": "", "headers": [note], "bytes": [], "indexes": [], "epochs": []}, 9)
    told = capsys.readouterr()
    for text in (told.err, told.out):
        assert r"is alonehalf \udcff mirrored \u202etxt.exe \x1b[31m new\rline [red]" in text
        assert text.replace("\n", "").replace("\N{NARROW NO-BREAK SPACE}", "").isprintable()
    assert r"replica 1: replicas 1 and 3 agree, replica 2 is alonehalf \udcff" in told.out, "a note, too"


def test_it_is_shown_how_many_of_sparks_tasks_are_done(spark, tmp_path):
    def allowed(number: int) -> None:
        while not (tmp_path / str(number)).exists():
            time.sleep(0.02)

    tasks = Tasks()
    assert tasks.render().plain == ""
    tasks.tracker = spark.sparkContext.statusTracker()
    with ThreadPoolExecutor() as pool:
        job = pool.submit(spark.sparkContext.parallelize(range(3), 3).foreach, allowed)
        for number in range(3):
            deadline = time.monotonic() + 100
            while (counted := tasks.render().plain) != f"{number} of 3 tasks":
                assert time.monotonic() < deadline, (number, counted)
                time.sleep(0.02)
            (tmp_path / str(number)).touch()
        job.result()
