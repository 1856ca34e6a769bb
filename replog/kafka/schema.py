"""The schemas of Kafka's messages, read from our notation of them, which tests/interop/kafka_schemas.py describes."""

from ast import literal_eval
from collections.abc import Iterator
from functools import cache
from keyword import iskeyword
from pathlib import Path
from typing import NamedTuple

SCHEMAS = Path(__file__).with_name("schemas")
_NEVER, _EVER = range(0), range(1 << 15)
_TAKEN = ("index", "count")  # methods of a NamedTuple have these names
_ZERO = {"bool": False, "string": "", "bytes": b"", "records": b"", "uuid": bytes(16), "float64": 0.0, "struct": None}


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
def read_schema(api: str) -> tuple[Struct, Struct]:
    """Return the request and the response of an API. Raise OSError if there are none."""
    lines = (SCHEMAS / f"{api}.txt").read_text().splitlines()
    request, response = (_message(head.split(), below) for head, below in _groups(lines))
    return request, response


def structs(of: Struct) -> Iterator[Struct]:
    """Yield the structs within a message, each before those that hold it, and the message at the end."""
    for field in of.fields:
        if field.struct is not None:
            yield from structs(field.struct)
    yield of


def _groups(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each line that is indented as the first one is, with the lines below it."""
    indent = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    starts = [number for number, line in enumerate(lines) if line[indent] != " "]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield lines[start], lines[start + 1 : end]


def _message(words: list[str], lines: list[str]) -> Struct:
    name, _, _, flexible = words
    names: set[str] = set()

    def fields(lines: list[str], parent: str) -> tuple[Field, ...]:
        return tuple(field(head.split(), below, parent) for head, below in _groups(lines))

    def field(words: list[str], lines: list[str], parent: str) -> Field:
        title, kind = words[0], words[1].removeprefix("[]")
        after = dict(zip(words, [*words[1:], ""], strict=True))
        many, tag, struct = kind != words[1], after.get("tag"), None
        nullable = _versions(after["null"]) if "null" in after else _NEVER
        default = None if nullable else () if many else _ZERO.get(kind, 0)
        if kind == "struct":
            own = "".join(word.capitalize() for word in _singular(title).split("_"))
            own = parent + own if own in names else own
            names.add(own)
            struct = Struct(name + own, _versions(flexible), fields(lines, own))
        return Field(
            name=title + "_" if title in _TAKEN or iskeyword(title) else title,
            kind=kind,
            many=many,
            versions=_versions(words[2]) if words[2:] and words[2][0].isdigit() else _EVER,
            nullable=nullable,
            tag=None if tag is None else int(tag),
            default=literal_eval(after["="]) if "=" in after else default,
            struct=struct,
        )

    return Struct(name, _versions(flexible), fields(lines, ""))


def _singular(name: str) -> str:
    return name[:-3] + "y" if name.endswith("ies") else name.removesuffix("s")


def _versions(text: str) -> range:
    """Parse `3`, `3+` or `3-7`."""
    first, _, last = text.rstrip("+").partition("-")
    return range(int(first), _EVER.stop if text.endswith("+") else int(last or first) + 1)
