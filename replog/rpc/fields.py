"""Copies fields that a message and an object of ours have under the same names."""

from collections.abc import Iterable
from typing import Any


def same_fields(source: Any, names: Iterable[str], lists: Iterable[str] = ()) -> dict[str, Any]:
    """Return each field under its name; `lists` become tuples."""
    fields = {name: getattr(source, name) for name in names}
    for name in lists:
        fields[name] = tuple(getattr(source, name))
    return fields
