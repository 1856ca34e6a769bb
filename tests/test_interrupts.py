"""Tests interrupt commands, also where they run in the background of a script: a shell ignores SIGINT there."""

import subprocess
import sys

CHILD = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"


def started_with_interrupts_ignored(program: str) -> str:
    script = f"""
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
{program}
print(subprocess.run([sys.executable, "-c", {CHILD!r}], capture_output=True, text=True).stdout)
"""
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def test_a_command_that_a_test_starts_can_be_interrupted():
    assert started_with_interrupts_ignored("") == "False"
    assert started_with_interrupts_ignored("import tests.conftest") == "True"
