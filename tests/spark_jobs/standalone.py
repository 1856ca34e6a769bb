"""A Spark standalone cluster of real processes, which has everything that the audit needs but replog itself."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from replog.local_cluster.ports import HOST, free_port
from spark_jobs.java import find_java_home, shim_java_home
from tests.deploy.running import Running, stopped_afterwards
from tests.docs.tree import ROOT

SHORT_LIVED = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}  # for JVMs that end soon
WORKERS = (1, 2)
_OURS = ("replog", "leader", "follower", "cluster", "spark_jobs")


def build_wheel(target: Path) -> Path:
    """The project's wheel, without a network."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"no wheel: {done.stdout}{done.stderr}\nhatchling comes with `make setup`"
    (wheel,) = target.glob("*.whl")
    return wheel


def interpreter_without_us(home: Path) -> Path:
    """A Python with every package of this one but ours, however that is installed here."""
    venv.create(home, symlinks=True)
    (theirs,) = home.glob("lib/python*/site-packages")
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        editable = package.suffix == ".pth" and "replog" in package.name
        ours = package.name in _OURS or package.name.startswith("pyspark_replog")
        if not ours and not editable and not package.name.startswith("replog-"):
            (theirs / package.name).symlink_to(package)
    return home / "bin" / "python"


@dataclass
class Standalone:
    """A running cluster and how to submit to it."""

    master: str
    workers: Sequence[Path]  # where each worker keeps what its executors have
    environment: Mapping[str, str]
    spark_home: Path
    home: Path

    def submit(
        self, *arguments: object, py_files: Path, settings: Mapping[str, str] | None = None, timeout_s: float = 480
    ) -> subprocess.CompletedProcess[str]:
        """`spark-submit`, from a directory where nothing is."""
        chosen = {
            "spark.driver.bindAddress": HOST,
            "spark.driver.host": HOST,
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "4",
            "spark.ui.enabled": "false",
            **(settings or {}),
        }
        words = [f"--conf={name}={value}" for name, value in chosen.items()]
        command = [self.spark_home / "bin" / "spark-submit", "--master", self.master, *words, "--py-files", py_files]
        return subprocess.run(
            [*map(str, command), *map(str, arguments)],
            cwd=self.home, env=dict(self.environment), capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip


@contextmanager
def standalone(home: Path) -> Iterator[Standalone]:
    """A master and two workers of a core each, under `home`, from the jars of the PySpark wheel."""
    python = interpreter_without_us(home / "venv")
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    spark_home = Path(spec.origin).parent
    environment = {
        "HOME": str(home),
        "JAVA_HOME": str(shim_java_home(find_java_home())),
        "PATH": f"{python.parent}:{os.defpath}",
        "PYSPARK_PYTHON": str(python),
        "SPARK_HOME": str(spark_home),
        **SHORT_LIVED,
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    port = free_port(())
    master = f"spark://{HOST}:{port}"
    spark_class = str(spark_home / "bin" / "spark-class")
    workers = [home / f"worker-{number}" for number in WORKERS]

    def start(name: str, main: str, *arguments: str) -> Running:
        command = [spark_class, f"org.apache.spark.deploy.{main}", "--host", HOST, "--webui-port", "0", *arguments]
        started.append(Running(command, home / f"{name}.log", environment))
        return started[-1]

    def wait(process: Running, sign: str) -> None:
        process.wait_until(lambda output: sign in output, repr(sign), timeout_s=400)

    with stopped_afterwards() as started:
        wait(start("master", "master.Master", "--port", str(port)), "I have been elected leader")
        given = ["--cores", "1", "--memory", "1g", "--work-dir"]
        for process in [start(path.name, "worker.Worker", *given, str(path), master) for path in workers]:
            wait(process, "Successfully registered with master")
        yield Standalone(master, workers, environment, spark_home, home)


def unpacked(wheel: Path, name: str, target: Path) -> Path:
    """One file out of the wheel."""
    with zipfile.ZipFile(wheel) as content, content.open(name) as file, target.open("wb") as copy:
        shutil.copyfileobj(file, copy)
    return target
