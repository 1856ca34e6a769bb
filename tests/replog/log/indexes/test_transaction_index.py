"""The transaction index of a segment (IX-19)."""

import os
from pathlib import Path

import pytest

from replog.log.errors import CorruptIndex, InvalidIndexOffset
from replog.log.indexes.transaction_index import AbortedTxn, TransactionIndex

FIRST = AbortedTxn(1, 0, 29, 8)
SECOND = AbortedTxn(2, 8, 74, 36)
BYTES = bytes.fromhex(
    "000000000000000000010000000000000000000000000000001d0000000000000008"
    "000000000000000000020000000000000008000000000000004a0000000000000024"
)


def index(directory: Path, *entries: AbortedTxn, base: int = 0) -> TransactionIndex:
    made = TransactionIndex(directory / f"{base:020d}.txnindex", base)
    for entry in entries:
        made.append(entry)
    made.write()
    return made


def test_two_entries(tmp_path):
    """S-W-B10."""
    made = index(tmp_path, FIRST, SECOND)
    assert made.path.read_bytes() == BYTES
    made.close()
    again = TransactionIndex(made.path, 0)
    assert list(again.entries()) == [FIRST, SECOND]
    assert (again.count, again.get(1)) == (2, SECOND)


def test_ix_19_the_file_comes_with_the_first_entry_and_goes_with_the_last(tmp_path):
    """IX-19."""
    made = index(tmp_path)
    assert made.collect(0, 100) == ([], False)
    made.flush()
    made.truncate_to(0)
    assert not made.path.exists()
    made.append(FIRST)
    made.write()
    assert made.path.stat().st_size == 34
    made.truncate_to(29)
    assert not made.path.exists()
    made.append(SECOND)
    made.write()
    assert list(TransactionIndex(made.path, 0).entries()) == [SECOND]


@pytest.mark.parametrize("last", [74, 73, 0])
def test_ix_19_markers_rise(tmp_path, last):
    """IX-19."""
    made = index(tmp_path, FIRST, SECOND)
    with pytest.raises(InvalidIndexOffset, match=f"last_offset={last}"):
        made.append(AbortedTxn(3, 0, last, last))
    assert made.count == 2


def test_an_index_that_shrank_since_it_was_loaded_is_told(tmp_path):
    made = index(tmp_path, FIRST, SECOND)
    os.truncate(made.path, len(BYTES) - 20)
    for use in (lambda: made.get(1), lambda: list(made.entries()), lambda: made.collect(0, 100)):
        with pytest.raises(CorruptIndex, match="txnindex has lost some of its 2 entries"):
            use()
