"""The reference of the wire: every service, message and code of proto/ that others may use, with its comments."""

import re
from collections.abc import Iterator

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

from replog.rpc.access import ACCESS
from replog.rpc.generate import PROTO, contracts
from replog.rpc.peer import Role

FILES = ("log", "common", "controller", "metadata", "log_dirs", "inspection", "replica", "presence")  # clients' first
_PACKAGE = ".replog.v1."
_INTRODUCTION = """# Wire reference

Every service, message and code of `proto/replog/v1`, made from these files. [The wire](wire.md) says how a client puts
them to use. After a method's messages stands whose certificate it asks for, or else what an ACL must allow if there is
an authorizer ([security](security.md)). In proto3 a field that is absent has the value 0, or is empty; those called
*optional* tell absent from 0.
"""


class _Comments(dict[tuple[int, ...], str]):
    """The comments of one file, by the paths of descriptors."""

    def of(self, *path: int) -> str:
        return self.get(path, "")

    def line(self, *path: int) -> str:
        """Returns a comment for a cell of a table."""
        return self.of(*path).replace("\n", " ").replace("|", "\\|")


def wire_reference() -> str:
    """Returns Markdown."""
    files = {file.name.rpartition("/")[2].removesuffix(".proto"): file for file in contracts(PROTO).file}
    return "\n".join([_INTRODUCTION, *("\n".join(_file(name, files[name])) for name in FILES)]) + "\n"


def _file(name: str, file: FileDescriptorProto) -> Iterator[str]:
    places = file.source_code_info.location
    comments = _Comments((tuple(at.path), _text(at.leading_comments + at.trailing_comments)) for at in places)
    yield f"## {name}.proto\n\n{comments.of(12)}\n"
    for at, service in enumerate(file.service):
        yield from _service(service, comments, (6, at))
    for at, message in enumerate(file.message_type):
        yield from _message(message, comments, (4, at))
    for at, enum in enumerate(file.enum_type):
        yield from _enum(enum, comments, (5, at))


def _text(comment: str) -> str:
    """Turns lines that are indented further, such as tables of words, into code."""
    lines = [line.removeprefix(" ") for line in comment.rstrip().splitlines()]
    return "\n".join(f"  {line}" if line.startswith("  ") else line for line in lines)


def _service(service: ServiceDescriptorProto, comments: _Comments, path: tuple[int, ...]) -> Iterator[str]:
    yield f"### Service {service.name}\n\n{comments.of(*path)}\n"
    for at, method in enumerate(service.method):
        asks = "a stream of " * method.client_streaming + _link(method.input_type)
        answers = "a stream of " * method.server_streaming + _link(method.output_type)
        for_whom, comment = _permission(f"{service.name}/{method.name}"), comments.line(*path, 2, at)
        yield f"- **{method.name}**: {asks} → {answers}. *{for_whom}.* {comment}"
    yield ""


def _permission(method: str) -> str:
    """Says which certificate a method needs, or what an ACL must allow if there is an authorizer."""
    access = ACCESS[method]
    if access.operation is None:
        return "Anybody"
    needs = f"{access.operation.name.title().replace('_', '')} on {access.on.value.partition(':')[0]}"
    return needs if access.role is Role.ANY else f"A {access.role}'s certificate, or {needs}"


def _message(message: DescriptorProto, comments: _Comments, path: tuple[int, ...], outer: str = "") -> Iterator[str]:
    yield f"### {outer}{message.name}\n\n{comments.of(*path)}\n"
    entries = {entry.name: entry for entry in message.nested_type if entry.options.map_entry}
    if message.field:
        yield "| | Field | Type | |\n|---|---|---|---|"
    else:
        yield "It has no fields."
    for at, field in enumerate(message.field):
        entry = entries.get(field.type_name.rpartition(".")[2])
        kind = f"map of {_type(entry.field[0])} to {_type(entry.field[1])}" if entry else _type(field)
        in_one = field.HasField("oneof_index") and not field.proto3_optional
        one_of = f"*one of {message.oneof_decl[field.oneof_index].name}* " if in_one else ""
        yield f"| {field.number} | `{field.name}` | {kind} | {one_of}{comments.line(*path, 2, at)} |"
    yield ""
    for at, nested in enumerate(message.nested_type):
        if nested.name not in entries:
            yield from _message(nested, comments, (*path, 3, at), f"{outer}{message.name}.")


def _type(field: FieldDescriptorProto) -> str:
    name = _link(field.type_name) if field.type_name else FieldDescriptorProto.Type.Name(field.type)[5:].lower()
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {name}"
    return f"*optional* {name}" if field.proto3_optional else name


def _enum(enum: EnumDescriptorProto, comments: _Comments, path: tuple[int, ...]) -> Iterator[str]:
    yield f"### {enum.name}\n\n{comments.of(*path)}\n"
    yield "| | Name | |\n|---|---|---|"
    for at, value in enumerate(enum.value):
        yield f"| {value.number} | `{value.name}` | {comments.line(*path, 2, at)} |"
    yield ""


def _link(name: str) -> str:
    short = name.removeprefix(_PACKAGE)
    anchor = re.sub(r"[^\w]", "", short).lower()
    return f"[{short}](#{anchor})"
