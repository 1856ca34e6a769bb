"""How commands end."""

import os
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

import replog
from replog.command.ending import READER_GONE, SPARK, BadUse, require, run
from replog.errors import ErrorCode, ReplogError


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ReplogError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic 'x' is not known"), 1),
        (ReplogError(ErrorCode.INVALID_TOPIC_EXCEPTION, "topic name '' is empty"), 2),
        (IsADirectoryError(21, "Is a directory", "/data"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_an_expected_error_is_one_line_on_stderr_and_a_status(error, status, capsys):
    assert run(lambda: _raise(error)) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    if str(error):
        assert printed.err == f"error: {error}\n"


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (OSError(28, "No space left on device", "/data"), "make room there, or use another directory"),
        (PermissionError(13, "Permission denied", "/data"), "run this as a user who may, or change who owns it"),
    ],
)
def test_what_the_operating_system_refuses_comes_with_a_remedy(error, remedy, capsys):
    assert run(lambda: _raise(error)) == 1
    assert capsys.readouterr().err == f"error: {error}; {remedy}\n"


def test_an_unexpected_error_keeps_its_traceback(capsys):
    assert run(lambda: _raise(ZeroDivisionError())) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "script",
    [
        "from replog.command.ending import run\n"
        "sys.exit(run(lambda: [print('x' * 1000, flush=True) for _ in range(1000)]))",
        "import typer; from replog.cli.main import app, main\n"
        "@app.command()\ndef lines():\n    for _ in range(1000): print('x' * 1000, flush=True)\n"
        "sys.argv = ['replog', 'lines']; main()",
    ],
)
def test_a_reader_that_has_enough_ends_a_command_without_a_word(script):
    """`replog log verify | head -1`: neither ok, since not all was told, nor a problem."""
    script = f"import sys; {script}"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) == READER_GONE
        assert process.stderr.read() == b""


def test_ctrl_c_during_the_imports_ends_the_command_without_a_traceback(tmp_path):
    (tmp_path / "typer.py").write_text("import signal; signal.raise_signal(signal.SIGINT)")
    command, environment = [sys.executable, "-m", "replog.cli", "version"], os.environ | {"PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(command, env=environment, capture_output=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


def test_commands_have_no_thread_that_ctrl_c_would_wait_for():
    """Those of asyncio's own executor are waited for: so is what holds them, such as a broker that is silent."""
    root = Path(replog.__file__).parent
    found = {
        line.strip()
        for room in ("cli", "command", "demo")
        for path in (root / room).glob("*.py")
        for line in path.read_text().splitlines()
        if "to_thread(" in line or "run_in_executor(" in line
    }
    assert found == {  # which change the cluster
        "await asyncio.to_thread(cluster.kill, victim)",
        "await asyncio.to_thread(cluster.start, victim)",
    }


def test_what_is_missing_is_named_with_the_versions_that_are_wanted(monkeypatch):
    require("typer", "rich")
    monkeypatch.setattr("replog.command.ending.find_spec", {"typer": "there"}.get)
    with pytest.raises(BadUse) as bad_use:
        require("typer", "pyspark", "of-no-extra")
    assert str(bad_use.value) == "missing: pyspark, of-no-extra; install them: pip install 'pyspark>=4.2' 'of-no-extra'"


def test_spark_needs_what_its_extra_says():
    extra = [line.partition(">")[0] for line in requires("replog") or [] if line.endswith("extra == 'spark'")]
    assert sorted(extra) == sorted(SPARK)
