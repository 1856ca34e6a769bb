"""Write `messages.pyi`, the types of Kafka's messages, from their schemas; `--check` fails instead if it differs."""

import sys
from pathlib import Path

from replog.kafka.schema import Field, Struct, read_schema, structs
from replog.kafka.versions import APIS

TARGET = Path(__file__).with_name("messages.pyi")
_HEAD = '''"""The types of messages.py. Made by `make generate` from the schemas: do not edit."""

from collections.abc import Sequence
from typing import NamedTuple

from replog.log.offsets import Buffer
'''
_PIECES = "Buffer | Sequence[Buffer]"  # an answer may have records in pieces
_TYPES = {"bool": "bool", "string": "str", "uuid": "bytes", "float64": "float", "bytes": "Buffer", "records": _PIECES}


def types() -> str:
    """Return what `messages.pyi` should be."""
    names = sorted(api.name for api in APIS.values())
    return _HEAD + "".join(_class(struct) for name in names for side in read_schema(name) for struct in structs(side))


def _class(struct: Struct) -> str:
    lines = [f"    {field.name}: {_type(field)} = ...\n" for field in struct.fields]
    return f"\nclass {struct.name}(NamedTuple):\n" + ("".join(lines) or "    ...\n")


def _type(field: Field) -> str:
    kind = field.struct.name if field.struct else _TYPES.get(field.kind, "int")
    return (f"Sequence[{kind}]" if field.many else kind) + " | None" * bool(field.nullable)


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(types())
    elif not TARGET.exists() or TARGET.read_text() != types():
        raise SystemExit("replog/kafka/messages.pyi differs from the schemas: run 'make generate' and commit")
