"""An answer that has nothing but an error: at its top if it has a place there, else in a row for all that was asked."""

from collections.abc import Sequence
from typing import Any

from replog.errors import ReplogError
from replog.kafka import messages
from replog.kafka.schema import Field, Struct, read_schema
from replog.kafka.versions import Api


def refused(api: Api, version: int, request: Any, error: ReplogError) -> Any:
    """Return the response to a request; to None, which is one that was not understood, it has no rows."""
    said = {"error_code": int(error.code), "error_message": error.message}
    return _answer(read_schema(api.name)[1], version, request, said)


def _answer(struct: Struct, version: int, asked: Any, said: dict[str, Any]) -> Any:
    names = [field.name for field in struct.fields if version in field.versions]
    values = {name: value for name, value in said.items() if name in names}
    if asked is None:
        return getattr(messages, struct.name)(**values)
    if not isinstance(asked, tuple):  # it asks by a name, or a number
        values[next(name for name in names if name not in said)] = asked
    for field in struct.fields:
        if field.struct is not None and field.many and "error_code" not in values and _tells(field.struct):
            values[field.name] = [_answer(field.struct, version, row, said) for row in _rows(field, asked)]
        elif field.struct is None and not field.many and field.name in getattr(asked, "_fields", ()):
            values.setdefault(field.name, getattr(asked, field.name))
    return getattr(messages, struct.name)(**values)


def _tells(struct: Struct) -> bool:
    """Return True if it has a place for an error, or its rows do."""
    return any(
        field.name == "error_code" or (field.struct is not None and _tells(field.struct)) for field in struct.fields
    )


def _rows(field: Field, asked: Any) -> Sequence[Any]:
    """Return what was asked in the field of this name, else in the first that lists something."""
    lists = {name: value for name, value in zip(asked._fields, asked, strict=True) if isinstance(value, list)}
    return lists.get(field.name) or next(filter(None, lists.values()), ())
