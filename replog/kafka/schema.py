"""The schemas of Kafka's messages, read from our notation of them, which tests/interop/kafka_schemas.py describes."""

from collections.abc import Iterator
from functools import cache
from keyword import iskeyword
from pathlib import Path
from typing import NamedTuple

SCHEMAS = Path(__file__).with_name("schemas")
NO_UUID = bytes(16)
_EVER = range(1 << 15)
_NEVER = range(0)
_METHODS = ("index", "count")  # a NamedTuple has these already


class Field(NamedTuple):
    """A field of a message, or of a struct in it."""

    name: str
    kind: str  # "int32", "string", …, or "struct"
    many: bool
    versions: range
    nullable: range
    tag: int | None
    default: object
    struct: "Struct | None"


class Struct(NamedTuple):
    """A message, or a part of one with fields of its own."""

    name: str
    flexible: range  # the versions with tags and short lengths
    fields: tuple[Field, ...]


@cache
def read_schema(name: str) -> tuple[Struct, Struct]:
    """Return the request and the response of an API. Raise OSError if there are none."""
    lines = [line for line in (SCHEMAS / f"{name}.txt").read_text().splitlines() if line]
    at = [number for number, line in enumerate(lines) if not line.startswith(" ")]
    request, response = (_message(lines[start:end]) for start, end in zip(at, [*at[1:], len(lines)], strict=True))
    return request, response


def structs(of: Struct) -> Iterator[Struct]:
    """Yield the structs within a message, each before those that hold it, and the message at the end."""
    for field in of.fields:
        if field.struct is not None:
            yield from structs(field.struct)
    yield of


def singular(name: str) -> str:
    if name.endswith("ies"):
        return name[:-3] + "y"
    return name.removesuffix("s")


def _message(lines: list[str]) -> Struct:
    words = lines[0].split()
    names: set[str] = set()
    flexible = _versions(words[words.index("flexible") + 1])
    return Struct(words[0], flexible, _fields(lines[1:], words[0], "", flexible, names))


def _fields(lines: list[str], message: str, parent: str, flexible: range, names: set[str]) -> tuple[Field, ...]:
    fields: list[Field] = []
    depth = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    at = [number for number, line in enumerate(lines) if not line.startswith(" " * (depth + 1))]
    for start, end in zip(at, [*at[1:], len(lines)], strict=True):
        fields.append(_field(lines[start].split(), lines[start + 1 : end], message, parent, flexible, names))
    return tuple(fields)


def _field(words: list[str], below: list[str], message: str, parent: str, flexible: range, names: set[str]) -> Field:
    name, kind = words[0], words[1].removeprefix("[]")
    many = words[1] != kind
    versions = _versions(words[2]) if len(words) > 2 and words[2][0].isdigit() else _EVER
    nullable = _versions(words[words.index("null") + 1]) if "null" in words else _NEVER
    tag = int(words[words.index("tag") + 1]) if "tag" in words else None
    text = words[words.index("=") + 1] if "=" in words else None
    struct = None
    if kind == "struct":
        own = "".join(word.capitalize() for word in singular(name).split("_"))
        own = parent + own if message + own in names else own
        names.add(message + own)
        struct = Struct(message + own, flexible, _fields(below, message, own, flexible, names))
    if name in _METHODS or iskeyword(name):
        name += "_"
    default = None if nullable else () if many else _default(kind, text)
    return Field(name, kind, many, versions, nullable, tag, default, struct)


def _default(kind: str, text: str | None) -> object:
    match kind:
        case "bool":
            return text == "true"
        case "string":
            return text or ""
        case "bytes" | "records":
            return b""
        case "uuid":
            return NO_UUID
        case "float64":
            return 0.0
        case "struct":
            return None  # codec.py puts the struct with its own defaults
    return int(text or 0)


def _versions(text: str) -> range:
    """Parse `none`, `3`, `3+` or `3-7`."""
    if text == "none":
        return _NEVER
    first, _, last = text.rstrip("+").partition("-")
    return range(int(first), _EVER.stop if text.endswith("+") else int(last or first) + 1)
