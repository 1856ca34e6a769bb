"""Kafka's messages as NamedTuples, each made when it is first used; `messages.pyi` tells type checkers of them.

`MetadataRequest` is a message, `MetadataResponseTopic` what its field `topics` holds. Every field has a default."""

import re
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

from replog.kafka.schema import Field, read_schema, structs

_API = re.compile(r"(\w+?)(?:Request|Response)")


def __getattr__(name: str) -> Any:
    """Make all messages of an API when one of them is first named."""
    api = _API.match(name)
    try:
        schemas = read_schema(api[1] if api else "")
    except OSError:
        schemas = ()
    for schema in schemas:
        for struct in structs(schema):
            if struct.name not in globals():
                names, defaults = [field.name for field in struct.fields], list(_defaults(struct.fields))
                globals()[struct.name] = namedtuple(struct.name, names, defaults=defaults, module=__name__)  # type: ignore[misc]
    if name not in globals():
        raise AttributeError(f"Kafka has no message {name!r} among those of replog/kafka/schemas")
    return globals()[name]


def _defaults(fields: tuple[Field, ...]) -> Iterator[object]:
    for field in fields:
        alone = field.struct is not None and not field.many and not field.nullable
        yield globals()[field.struct.name]() if alone and field.struct else field.default
