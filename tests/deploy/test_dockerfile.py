"""The steps of the Dockerfile, run as a script below a temporary root; what they install is a whole replog."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.commands import DEPLOY

pytestmark = pytest.mark.processes

OURS = ("/src", "/opt/replog", "/etc/replog", "/var/lib/replog")  # paths that are mapped below the root
NOT_HERE = ("useradd", "apt-get")  # they would change this machine
LIMIT_S = 1000


def steps() -> Iterator[tuple[str, str]]:
    """The instructions for the image `replog`, those of the stage that builds first."""
    stage, wanted = "", ("build", "base", "replog")
    for line in (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stage = rest.rpartition(" ")[2]
        elif word.isupper() and word != "ARG" and stage in wanted:
            yield word, rest


class Image:
    """What the steps make of a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.here = root
        self.environment = {**os.environ, "PYTHONNOUSERSITE": "1"}
        self.environment.pop("PYTHONPATH", None)
        self.entrypoint: list[str] = []

    def mapped(self, text: str) -> str:
        for path in OURS:
            text = text.replace(path, f"{self.root}{path}")
        return text

    def do(self, word: str, rest: str) -> None:
        match word:
            case "WORKDIR":
                self.here = Path(self.mapped(rest))
                self.here.mkdir(parents=True, exist_ok=True)
            case "COPY" if not rest.startswith("--from"):  # the stages share one root
                *sources, target = rest.split()
                for source in sources:
                    self._copy(DEPLOY.parent / source, self.here / self.mapped(target), alone=len(sources) == 1)
            case "ENV":
                for name, _, value in (pair.partition("=") for pair in rest.split()):
                    self.environment[name] = self.mapped(value).replace(f"${name}", self.environment.get(name, ""))
                self.environment.pop("PIP_NO_CACHE_DIR", None)  # an image need not be small here
            case "RUN" if not rest.startswith(NOT_HERE):
                script = self.mapped(rest).replace("python -m venv", f"{sys.executable} -m venv")
                subprocess.run(["sh", "-e", "-c", script], cwd=self.here, env=self.environment, check=True)
            case "ENTRYPOINT":
                self.entrypoint = [word.strip('[]", ') for word in rest.split(",")]

    def _copy(self, source: Path, target: Path, *, alone: bool) -> None:
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target if not alone else target / source.name if target.is_dir() else target)

    def run(self, line: str, stdin: str = "") -> str:
        command = [*self.entrypoint, *shlex.split(line)]
        program = shutil.which(command[0], path=self.environment["PATH"])
        assert program is not None, self.environment["PATH"]
        assert program.startswith(str(self.root)), program
        done = subprocess.run(
            [program, *command[1:]],
            cwd=self.here,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def test_the_image_has_a_replog_that_runs_a_cluster(tmp_path):
    image = Image(tmp_path)
    done = []
    for word, rest in steps():
        image.do(word, rest)
        done.append(word)
    assert done.count("RUN") == 2, done
    assert image.here == tmp_path / "var/lib/replog"
    image.environment["REPLOG_CLUSTER_DIRECTORY"] = str(tmp_path / "cluster")
    image.environment.pop("REPLOG_BOOTSTRAP_SERVER", None)
    assert image.run("--version").startswith("replog ")
    try:
        image.run("cluster up --brokers 1")
        image.run("topic create --topic t --partitions 1 --replication-factor 1")
        image.run("produce --topic t", stdin="from the image\n")
        assert image.run("consume --topic t --from-beginning --max-messages 1") == "from the image\n"
        assert "audit" in image.run("console --help")
    finally:
        image.run("cluster down")
