"""Apache Kafka itself: its jars, fetched once, and its programs, each in a JVM of its own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from spark_jobs.java import NoJava, find_java_home

VERSION, OLD, NEW, NEWEST = "4.1.0", "3.3.2", "4.3.1", "4.4.0"  # of the newest, its format of a directory
_POM = str(Path(__file__).with_name("pom.xml"))
_DOWNLOAD_TIMEOUT_S = 240
_QUICK_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


class NoKafka(Exception):
    """Kafka cannot be had here; the message says why and what would help."""


def cache_directory(version: str = VERSION) -> Path:
    """Where the jars are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "replog" / f"kafka-{version}"


def fetch_jars(target: Path, version: str = VERSION) -> Path:
    """`target` with all jars of `pom.xml` in it, from Maven unless it is there already; never a part of them."""
    if target.is_dir():
        return target
    maven = shutil.which("mvn")
    if maven is None:
        raise NoKafka(f"mvn is not on PATH to fetch Kafka {version} with, and {target} is not there: install Maven")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        jars = Path(work) / "jars"
        command = [maven, "-q", "-B", "-f", _POM, "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        command.append(f"-Dkafka.version={version}")
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_DOWNLOAD_TIMEOUT_S, stdin=subprocess.DEVNULL, cwd=work
            )
        except subprocess.TimeoutExpired:
            raise NoKafka(f"Maven did not fetch Kafka {version} within {_DOWNLOAD_TIMEOUT_S} s") from None
        if done.returncode != 0:
            raise NoKafka(f"Maven did not fetch Kafka {version}: {(done.stdout + done.stderr)[-1000:]}")
        try:
            jars.rename(target)
        except OSError:
            if not target.is_dir():  # or another run was quicker
                raise
    return target


class Kafka:
    """Kafka's programs, by the names of their main classes."""

    def __init__(self, version: str = VERSION) -> None:
        """Raises NoKafka."""
        self.segment_bytes = "segment.bytes" if version == OLD else "internal.segment.bytes"  # for small segments
        self.dumper = f"{'org.apache.kafka' if version == NEW else 'kafka'}.tools.DumpLogSegments"
        try:
            self._java = find_java_home() / "bin" / "java"
        except NoJava as error:
            raise NoKafka(str(error)) from None
        self._jars = fetch_jars(cache_directory(version), version)

    def command(
        self, main: str, arguments: Sequence[object], log_level: str, jvm: Sequence[str] = _QUICK_JVM
    ) -> list[str]:
        """`main`: a class, or a file with the source of one."""
        logging = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"
        return [str(self._java), *jvm, logging, "-cp", f"{self._jars}/*", main, *map(str, arguments)]

    def try_run(
        self, main: str, *arguments: object, stdin: str = "", timeout_s: float = 200
    ) -> subprocess.CompletedProcess[str]:
        """Run a tool to its end; on stderr is what it complains of, and nothing else."""
        command = self.command(main, arguments, "error")
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)

    def run(self, main: str, *arguments: object, stdin: str = "", timeout_s: float = 200) -> str:
        """What a tool prints, which must succeed."""
        done = self.try_run(main, *arguments, stdin=stdin, timeout_s=timeout_s)
        assert done.returncode == 0, f"{main} {arguments} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(
        self, main: str, *arguments: object, output: IO[bytes], jvm: Sequence[str] = _QUICK_JVM
    ) -> subprocess.Popen[bytes]:
        """Start a program in a process group of its own."""
        return subprocess.Popen(
            self.command(main, arguments, "warn", jvm),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
