"""Checks that the contracts still mean what the published ones meant to clients built from those.

`proto/published.txt` has a line for each method, field and enum value. Lines may be added. A field or value may go if
its number and its name are `reserved`; anything else changes what is sent, or its name in somebody's code."""

from collections.abc import Iterable, Iterator

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)


def lines(contracts: FileDescriptorSet) -> list[str]:
    """Return a line for each part of the contracts, in the order of the files."""
    return [line for line, _ in _entries(contracts)]


def broken(published: Iterable[str], contracts: FileDescriptorSet) -> list[str]:
    """Return the published lines that are no longer true."""
    now = set(lines(contracts))
    given_up = {line for _, reserved in _entries(contracts) for line in reserved}
    return [line for line in published if line not in now and _place(line) not in given_up]


def _place(line: str) -> str:
    """Return kind, owner, number and name of a field or value; empty for others, which cannot be reserved."""
    kind, *rest = line.split()
    return " ".join([kind, *rest[:3]]) if kind in ("field", "value") else ""


def _entries(contracts: FileDescriptorSet) -> Iterator[tuple[str, list[str]]]:
    """Yield each line, and the places that are reserved beside it."""
    for file in contracts.file:
        for service in file.service:
            for method in service.method:
                yield _method(f"{file.package}.{service.name}", method), []
        for enum in file.enum_type:
            yield from _enum(f"{file.package}.{enum.name}", enum)
        for message in file.message_type:
            yield from _message(f"{file.package}.{message.name}", message)


def _method(service: str, method: MethodDescriptorProto) -> str:
    asks = "stream " * method.client_streaming + method.input_type
    answers = "stream " * method.server_streaming + method.output_type
    return f"method {service} {method.name} {asks} returns {answers}"


def _message(name: str, message: DescriptorProto) -> Iterator[tuple[str, list[str]]]:
    numbers = [number for between in message.reserved_range for number in range(between.start, between.end)]
    yield f"message {name}", _reserved("field", name, numbers, message.reserved_name)
    for field in message.field:
        label = FieldDescriptorProto.Label.Name(field.label).removeprefix("LABEL_").lower()
        presence = "presence " if field.proto3_optional else ""
        kind = field.type_name or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
        yield f"field {name} {field.number} {field.name} {presence}{label} {kind}", []
    for enum in message.enum_type:
        yield from _enum(f"{name}.{enum.name}", enum)
    for nested in message.nested_type:
        yield from _message(f"{name}.{nested.name}", nested)


def _enum(name: str, enum: EnumDescriptorProto) -> Iterator[tuple[str, list[str]]]:
    numbers = [number for between in enum.reserved_range for number in range(between.start, between.end + 1)]
    yield f"enum {name}", _reserved("value", name, numbers, enum.reserved_name)
    for value in enum.value:
        yield f"value {name} {value.number} {value.name}", []


def _reserved(kind: str, owner: str, numbers: Iterable[int], names: Iterable[str]) -> list[str]:
    return [f"{kind} {owner} {number} {name}" for number in numbers for name in names]
