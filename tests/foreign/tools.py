"""Tools that others made: pinned, fetched once, kept in a cache. Tests whose tool cannot be had are skipped."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

_FETCH_TIMEOUT_S, _BUILD_TIMEOUT_S = 240, 1800


class NoTool(Exception):
    """A tool cannot be had here; the message says why and what would help."""


def cache_directory() -> Path:
    """Return where tools are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "replog" / "foreign"


def kept(name: str, make: Callable[[Path], object]) -> Path:
    """Return the directory `name` of the cache; `make` fills it the first time. It is there wholly or not at all."""
    target = cache_directory() / name
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        work = Path(directory) / "work"
        work.mkdir()
        make(work)
        try:
            work.rename(target)
        except OSError:
            if not target.is_dir():  # or another run was quicker
                raise
    return target


def run(
    work: Path, *command: str | Path, timeout_s: float = _FETCH_TIMEOUT_S, env: Mapping[str, str] | None = None
) -> str:
    """Run a command that must succeed, and return its output. Raises NoTool."""
    words = list(map(str, command))
    try:
        done = subprocess.run(
            words,
            cwd=work,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        raise NoTool(f"{words[0]} is not on PATH: install it") from None
    except subprocess.TimeoutExpired:
        raise NoTool(f"{' '.join(words)} took longer than {timeout_s:g} s") from None
    if done.returncode != 0:
        raise NoTool(f"{' '.join(words)} ended with {done.returncode}: {(done.stdout + done.stderr)[-1000:]}")
    return done.stdout


def program(name: str, remedy: str) -> str:
    """Return the path of a program of this machine. Raises NoTool."""
    if (path := shutil.which(name)) is None:
        raise NoTool(f"{name} is not on PATH: {remedy}")
    return path


def wheels(*requirements: str) -> Path:
    """Return a directory to import packages from, which are not among replog's own. Raises NoTool."""
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    name = "+".join((*(requirement.replace("==", "-") for requirement in requirements), version))
    pip = (sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target")
    return kept(name, lambda work: run(work, *pip, work, *requirements))


def sdist(package: str, version: str) -> Path:
    """Return the sources of a Python package, as its authors packed them. Raises NoTool."""

    def make(work: Path) -> None:
        pip = (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", package)
        run(work, *pip, f"{package}=={version}")
        _unpack(next(work.glob("*.tar.gz")), work)

    return kept(f"{package}-{version}", make)


def checkout(address: str, tag: str) -> Path:
    """Return a copy of a public repository, of one tag. Raises NoTool."""

    def make(work: Path) -> None:
        run(work, "git", "-c", "advice.detachedHead=false", "clone", "-q", "--depth", "1", "-b", tag, address, "source")
        _raise_up(work / "source")

    return kept(f"{address.rpartition('/')[2]}-{tag}", make)


def debian_source(package: str, version: str, build: Callable[[Path], None]) -> Path:
    """Return what `build` made in the sources that Debian's development branch has of a package. Raises NoTool."""

    def make(work: Path) -> None:
        program("apt-get", "these sources come from Debian")
        lists = Path(tempfile.mkdtemp(dir=work))
        sites = run(work, "apt-get", "indextargets", "--format", "$(SITE)").split()
        site = next((site for site in sites if site.endswith("/debian")), None)
        if site is None:
            raise NoTool("no source of this machine's apt has the address of a mirror of Debian")
        (work / "sources.list").write_text(f"deb-src {site} sid main\n")
        where = f"Dir::Etc::SourceList={work}/sources.list", "Dir::Etc::SourceParts=/dev/null"
        options = [word for option in (*where, f"Dir::State::Lists={lists}") for word in ("-o", option)]
        run(work, "apt-get", *options, "-q", "update")
        run(work, "apt-get", *options, "-q", "source", "--download-only", f"{package}={version}")
        shutil.rmtree(lists)
        _unpack(next(work.glob("*.orig.tar.*")), work)
        build(work)

    return kept(f"{package}-{version}", make)


def build(work: Path, *command: str) -> None:
    """Run a step of a build, which leaves the machine to others. Raises NoTool."""
    run(work, "nice", *command, timeout_s=_BUILD_TIMEOUT_S)


def _unpack(archive: Path, work: Path) -> None:
    with tarfile.open(archive) as files:
        files.extractall(work, filter="data")
    (top,) = (path for path in work.iterdir() if path.is_dir())
    _raise_up(top)


def _raise_up(directory: Path) -> None:
    """Move what a directory has to its parent, and remove it."""
    directory = directory.rename(directory.with_name(".unpacked"))
    for path in directory.iterdir():
        path.rename(directory.parent / path.name)
    directory.rmdir()
