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
_TYPES = {"bool": "bool", "string": "str", "uuid": "bytes", "float64": "float", "bytes": "Buffer", "records": "Buffer"}


def types() -> str:
    """Return what `messages.pyi` should be."""
    names = sorted(api.name for api in APIS.values())
    classes = [_class(struct) for name in names for message in read_schema(name) for struct in structs(message)]
    return _HEAD + "".join(classes)


def _class(struct: Struct) -> str:
    body = "".join(f"    {line}\n" for line in map(_line, struct.fields))
    return f"\nclass {struct.name}(NamedTuple):\n{body or '    ...' + chr(10)}"


def _line(field: Field) -> str:
    kind = field.struct.name if field.struct else _TYPES.get(field.kind, "int")
    if field.kind == "records":  # an answer may have them in pieces
        kind = f"{kind} | Sequence[Buffer]"
    if field.many:
        kind = f"Sequence[{kind}]"
    return f"{field.name}: {kind}{' | None' if field.nullable else ''} = ..."


def main() -> None:
    wanted = types()
    if "--check" in sys.argv[1:]:
        if not TARGET.exists() or TARGET.read_text() != wanted:
            raise SystemExit("replog/kafka/messages.pyi differs from the schemas: run 'make generate' and commit")
        return
    TARGET.write_text(wanted)


if __name__ == "__main__":
    main()
