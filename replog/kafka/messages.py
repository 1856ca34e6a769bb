"""Kafka's messages as NamedTuples, each made when it is first used; `messages.pyi` tells type checkers of them.

`MetadataRequest` is a message, `MetadataResponseTopic` what its field `topics` holds. Every field has a default."""

import re
from collections import namedtuple
from typing import Any

from replog.kafka.schema import read_schema, structs

_API = re.compile(r"(\w+?)(?:Request|Response)")


def __getattr__(name: str) -> Any:
    """Make all messages of an API when one of them is first named."""
    api, made = _API.match(name), globals()
    try:
        schemas = read_schema(api[1] if api else "")
    except OSError:
        schemas = ()
    for struct in (struct for schema in schemas for struct in structs(schema) if struct.name not in made):
        defaults = [
            made[field.struct.name]() if field.struct and not field.many and not field.nullable else field.default
            for field in struct.fields
        ]
        names = [field.name for field in struct.fields]
        made[struct.name] = namedtuple(struct.name, names, defaults=defaults, module=__name__)  # type: ignore[misc]
    if name not in made:
        raise AttributeError(f"Kafka has no message {name!r} among those of replog/kafka/schemas")
    return made[name]
