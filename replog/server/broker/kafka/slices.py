"""Answers of thousands of rows, which are encoded row by row: in slices, so that others have their turn in between."""

from collections.abc import Sequence
from typing import Any

from replog.kafka.frames import answer_body, is_flexible
from replog.log.formats.varint import unsigned
from replog.log.offsets import Buffer


class Rows:
    """Encodes answers of an API in one version, of which the array `field` is long."""

    def __init__(self, key: int, version: int, empty: Any, field: str, behind: int = 0) -> None:
        """`empty`: an answer without rows. `behind`: bytes of fields, not of tags, that follow the array."""
        self._api = key, version
        self._empty, self._field = empty, field
        self._flexible = is_flexible(key, version)
        self._behind = behind + self._flexible
        self._before = len(b"".join(answer_body(key, version, empty))) - self._behind

    def row(self, row: Any) -> bytes:
        whole = b"".join(answer_body(*self._api, self._empty._replace(**{self._field: (row,)})))
        return whole[self._before : len(whole) - self._behind]

    def answer(self, rest: Any, rows: Sequence[Buffer]) -> bytes:
        """Return the answer with these rows; `rest` has its other fields."""
        whole = b"".join(answer_body(*self._api, rest))
        at = len(whole) - self._behind
        count = unsigned(len(rows) + 1) if self._flexible else len(rows).to_bytes(4)
        return b"".join((whole[: at - (1 if self._flexible else 4)], count, *rows, whole[at:]))
