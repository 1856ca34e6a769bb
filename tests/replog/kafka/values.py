"""Messages by chance: any value that a field may have."""

from random import Random
from typing import Any

from replog.kafka import messages
from replog.kafka.schema import Field, Struct, read_schema
from replog.kafka.versions import Api

REQUEST, RESPONSE = 0, 1
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def message(api: Api, version: int, side: int, chance: Random, most: int = 3) -> Any:
    """One with up to `most` elements in an array, and some of the fields that are tagged."""
    return _struct(read_schema(api.name)[side], version, chance, most)


def plain(value: Any) -> Any:
    """Equal for values that are the same, views or not, lists or tuples."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, (list, tuple)):
        return type(value).__name__ if hasattr(value, "_fields") else "", [plain(each) for each in value]
    return value


def _struct(struct: Struct, version: int, chance: Random, most: int) -> Any:
    present = (field for field in struct.fields if version in field.versions)
    given = {f.name: _value(f, version, chance, most) for f in present if f.tag is None or chance.random() < 0.6}
    return getattr(messages, struct.name)(**given)


def _value(field: Field, version: int, chance: Random, most: int) -> Any:
    if version in field.nullable and chance.random() < 0.2:
        return None
    if field.many:
        one = field._replace(many=False, nullable=range(0))
        few = min(most, 3)
        return [_value(one, version, chance, few) for _ in range(chance.choice((0, 1, most)))]
    if field.struct is not None:
        return _struct(field.struct, version, chance, most)
    match field.kind:
        case "bool":
            return chance.random() < 0.5
        case "string":
            return "é" * chance.choice((0, 1, 5, 200))
        case "bytes" | "records":
            return chance.randbytes(chance.choice((0, 5, 200, 9000)))
        case "uuid":
            return chance.randbytes(16)
        case "uint16":
            return chance.randrange(1 << 16)
        case "float64":
            return chance.random()
    bits = _BITS[field.kind]
    return chance.choice((-1, 0, chance.randrange(1 << bits) - (1 << bits - 1)))
