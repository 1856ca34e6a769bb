"""How the audit's commands end, and what they do about a Ctrl-C, whenever it comes."""

import itertools
import json
import signal
import subprocess
import sys
import time
from threading import Lock

import pytest

from replog.command.ending import BadUse
from spark_jobs import audit_replicas, explain_finding, follow_replicas
from spark_jobs.audit.findings import LEVELS
from spark_jobs.command_line import audit_failed, ending, where_of, with_spark
from spark_jobs.session import reason
from tests.spark_jobs.command import LIMIT_S


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (BadUse("--level x: no such level"), 2, "error: --level x: no such level\n"),
        (audit_failed("no broker answers"), 3, "error: the audit failed, so nothing is known: no broker answers\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_what_is_expected_is_told_in_a_line(error, status, told, capfd):
    def command() -> int:
        raise error

    assert ending(command) == status
    assert capfd.readouterr().err == told
    assert ending(lambda: with_spark(lambda _: 1)) == 1


def test_a_defect_of_ours_does_not_say_diverged(capfd):
    assert ending(lambda: with_spark(lambda _: 1 // 0)) == 3
    assert "ZeroDivisionError" in capfd.readouterr().err


@pytest.mark.parametrize("module", [audit_replicas, follow_replicas, explain_finding])
def test_help_fits_a_terminal_of_80_columns_and_looks_as_that_of_every_command(module, monkeypatch, capsys):
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    assert module.main(["-h"]) == 0  # type: ignore[attr-defined]
    told = capsys.readouterr().out
    assert told.split()[:3] == ["Usage:", "replog", "audit"]
    assert "╭─ Options ─" in told
    assert [line for line in told.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("module", [audit_replicas, follow_replicas, explain_finding])
def test_a_misspelt_option_is_told_which_one_was_meant(module, capsys):
    assert module.main(["--report-dr", "x", "--checkpoint-dr", "x"]) == 2  # type: ignore[attr-defined]
    told = capsys.readouterr().err
    assert "No such option: --report-dr" in told
    assert "(Possible options: --" in told


def test_a_topic_without_its_option_and_a_checkpoint_that_is_none_are_told_before_anybody_is_asked(tmp_path, capsys):
    assert audit_replicas.main(["orders"]) == 2
    assert "Perhaps you mean: --topic orders" in capsys.readouterr().err
    (tmp_path / "verified.json").write_text("{")
    nobody = ["--bootstrap-server", "127.0.0.1:1", "--checkpoint-dir"]
    for place in (tmp_path, tmp_path / "verified.json"):
        assert follow_replicas.main([*nobody, str(place)]) == 2
        assert "error: --checkpoint-dir" in capsys.readouterr().err
    for option, least in (("--interval", "0.1"), ("--max-rounds", "1")):
        assert follow_replicas.main([*nobody, "/tmp/none", option, "0"]) == 2
        assert f" from {least} to " in capsys.readouterr().err


def test_of_what_spark_says_the_data_sources_own_error_is_told():
    trace = 'Traceback (most recent call last):\n  File "brokers.py", line 92, in _metadata\n'
    said = f"[PYTHON_DATA_SOURCE_ERROR] Failed: {trace}OSError: [Errno 113] no broker answers; is it right?\n SQLSTATE"
    assert reason(ValueError(said)) == "no broker answers; is it right?"
    for between in ("read: ", "read:\n"):
        said = (
            f"[PYTHON_DATA_SOURCE_ERROR] Failed to plan {between}OSError: [Errno 113] no broker: KeyError: x\n SQLSTATE"
        )
        assert reason(ValueError(said)) == "no broker: KeyError: x", "without a trace"
    said = f"[PYTHON_DATA_SOURCE_ERROR] Failed: {trace}KeyError: 'a'\n SQLSTATE: 38000"
    assert reason(ValueError(said)) == said, "a defect keeps its trace"
    assert reason(ConnectionRefusedError()).startswith("the Java that runs Spark has ended")


# -- a real process


SIGNAL_TO_ANOTHER_THREAD = """
import signal, sys, threading, time
from spark_jobs.command_line import with_spark

answered = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: answered.set())

def work(_):
    time.sleep(0.5)  # the main one sleeps by then
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    return 0 if answered.wait(20) else 1

sys.exit(with_spark(work))
"""


INTERRUPTED_JOB = """
import atexit, os, subprocess, sys, time
from spark_jobs.command_line import ending, with_spark
from spark_jobs.session import spark_session

def work(_):
    context = spark_session("job", "local[4]").sparkContext
    log4j = context._jvm.org.apache.logging.log4j.LogManager
    for name in ("org.apache.spark.executor.Executor", "another"):
        atexit.register(log4j.getLogger(name).error, "of a task that was not begun")
    java, own = context._gateway.proc.pid, os.getpid()
    subprocess.Popen(["sh", "-c", f"sleep 3; kill -STOP {java}; kill -INT {own}; sleep 4; kill -CONT {java}"])
    context.parallelize(range(4000), 4000).foreach(lambda number: time.sleep(0.02))
    return 0

sys.exit(ending(lambda: with_spark(work)))
"""

SIGNALLED = """
import os, sys, time
from spark_jobs.command_line import ending, with_spark

def work(_):
    os.kill(os.getpid(), int(sys.argv[1]))
    time.sleep(200)
    return 0

sys.exit(ending(lambda: with_spark(work)))
"""


def spark_works(running: list[str]) -> bool:
    return any("pyspark" in line and "daemon" in line for line in running)


@pytest.mark.spark
@pytest.mark.processes
@pytest.mark.parametrize(("verb", "number"), [("run", signal.SIGINT), ("follow", signal.SIGTERM)])
def test_a_signal_to_all_processes_ends_them_with_a_short_message_and_nothing_half_written(
    command, cluster, tmp_path, verb, number
):
    reports = tmp_path / "reports"
    where = ["--report-dir" if verb == "run" else "--checkpoint-dir", str(reports)]
    running = command(verb, *cluster.options(), *where)
    running.wait_for(spark_works)
    status, out, err = running.interrupted(number)
    if verb == "follow":  # the rounds end in order
        assert status in (0, 3), (out, err)
        assert " 0 new findings; not looked at: payload, " in out, (out, err)
        assert err == ""
    else:
        assert (status, out, err) == (130, "", "interrupted\n")
        assert not reports.exists() or list(reports.iterdir()) == [], list(reports.iterdir())
    running.wait_for_end()


@pytest.mark.spark
@pytest.mark.processes
def test_a_java_that_is_killed_is_told_in_a_line(command, cluster, tmp_path):
    running = command("follow", *cluster.options(), "--checkpoint-dir", str(tmp_path / "follow"))
    running.wait_for(spark_works)
    running.kill_java()
    status, _, err = running.ended()
    told = "error: the audit failed, so nothing is known: the Java that runs Spark has ended"
    assert (status, err.count("\n")) == (3, 1), err
    assert err.startswith(told), err
    running.wait_for_end()


@pytest.mark.processes
def test_a_reader_that_has_enough_is_no_error(command, tmp_path):
    finding = {"class": "GAP", "topic": "t", "partition": 0, "replicas": [1], "first_offset": 0, "last_offset": 0}
    finding |= {"wrong_replica": 1, "why": "w" * 200, "remedy": "r", "evidence": []}
    report = {"findings": [finding] * 1000, "where": {"directories": {"1": ["/none"]}}, "verdict": "DIVERGED"}
    (tmp_path / "summary.json").write_text(json.dumps(report))
    reading = command("explain", "--report-dir", str(tmp_path))
    assert reading.process.stdout is not None
    reading.process.stdout.close()
    reading.process.stdout = None
    status, _, err = reading.ended()
    assert (status, err) == (141, "")


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_directories_given_under_each_others_ids_are_noted(cluster, capsys, name):
    for replica, directory in cluster.directories.items():
        (directory / "meta.properties").write_text(f"version=1\n{name}={replica}\n")
    given = {1: 2, 2: 1, 3: 3}
    replicas = [f"{n}={cluster.directories[of]}" for n, of in given.items()]
    where_of(replicas, None, None)
    first, second = capsys.readouterr().err.splitlines()
    assert f"--replica 1: {cluster.directories[2]} says in meta.properties that it is broker 2's" in first
    assert f"--replica 2: {cluster.directories[1]} says" in second


def test_the_brokers_of_the_environment_are_audited_if_none_are_named(monkeypatch, capsys):
    monkeypatch.setenv("REPLOG_BOOTSTRAP_SERVER", "of-the-environment")
    assert audit_replicas.main(["--level", LEVELS[0]]) == 2
    assert "'of-the-environment' is not host:port" in capsys.readouterr().err


def test_ctrl_c_waits_for_what_is_being_written_and_lets_nothing_more_be_written():
    written = []

    def work(writing: Lock) -> int:
        for number in itertools.count():
            with writing:
                written.append(f"{number} begun")
                signal.raise_signal(signal.SIGINT) if number == 0 else None
                time.sleep(0.1)
                written.append(f"{number} done")
            time.sleep(0.05)
        return 0

    with pytest.raises(KeyboardInterrupt):
        with_spark(work)
    left = written[:]
    assert left[-1].endswith("done"), left
    time.sleep(0.3)
    assert written == left


@pytest.mark.spark
def test_an_interrupted_job_is_told_in_a_word_and_java_says_nothing_more_though_it_listens_late():
    """Its tasks end after this process."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_JOB], capture_output=True, text=True, timeout=2 * LIMIT_S)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_end_an_audit_as_ctrl_c_does(number):
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED, str(int(number))], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_a_signal_that_another_thread_took_is_answered_all_the_same():
    """Python answers it in the main thread, which sleeps: the system may give a signal to any."""
    assert subprocess.run([sys.executable, "-c", SIGNAL_TO_ANOTHER_THREAD], timeout=LIMIT_S).returncode == 0
