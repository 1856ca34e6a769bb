"""Checks that the contracts still mean what the published ones meant to clients built from those.

`proto/published.txt` has a line for each method, field and enum value. Lines may be added. A field or value may go if
its number and its name are `reserved`; anything else changes what is sent, or its name in somebody's code."""

from collections.abc import Iterable, Iterator

from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet


def lines(contracts: FileDescriptorSet) -> Iterator[str]:
    """Yield a line for each part of the contracts, in the order of the files, and `reserved …` for what is reserved."""
    for file in contracts.file:
        for service in file.service:
            for method in service.method:
                asks = "stream " * method.client_streaming + method.input_type
                answers = "stream " * method.server_streaming + method.output_type
                yield f"method {file.package}.{service.name} {method.name} {asks} returns {answers}"
        yield from _enums(file.package, file.enum_type)
        yield from _messages(file.package, file.message_type)


def broken(published: Iterable[str], contracts: FileDescriptorSet) -> list[str]:
    """Return the published lines that are no longer true."""
    now = set(lines(contracts))
    # a field's or value's line begins with its kind, owner, number and name
    return [line for line in published if line not in now and " ".join(["reserved", *line.split()[:4]]) not in now]


def _messages(owner: str, messages: Iterable[DescriptorProto]) -> Iterator[str]:
    for message in messages:
        name = f"{owner}.{message.name}"
        yield f"message {name}"
        numbers = [number for between in message.reserved_range for number in range(between.start, between.end)]
        yield from _reserved("field", name, numbers, message.reserved_name)
        for field in message.field:
            label = FieldDescriptorProto.Label.Name(field.label).removeprefix("LABEL_").lower()
            presence = "presence " if field.proto3_optional else ""
            kind = field.type_name or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
            yield f"field {name} {field.number} {field.name} {presence}{label} {kind}"
        yield from _enums(name, message.enum_type)
        yield from _messages(name, message.nested_type)


def _enums(owner: str, enums: Iterable[EnumDescriptorProto]) -> Iterator[str]:
    for enum in enums:
        name = f"{owner}.{enum.name}"
        yield f"enum {name}"
        numbers = [number for between in enum.reserved_range for number in range(between.start, between.end + 1)]
        yield from _reserved("value", name, numbers, enum.reserved_name)
        for value in enum.value:
            yield f"value {name} {value.number} {value.name}"


def _reserved(kind: str, owner: str, numbers: Iterable[int], names: Iterable[str]) -> Iterator[str]:
    return (f"reserved {kind} {owner} {number} {name}" for number in numbers for name in names)
