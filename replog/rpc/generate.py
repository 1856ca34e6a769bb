"""Generate `replog/rpc/v1` from `proto`; `--check` fails instead if it has drifted.

`--check` also refuses contracts that break `proto/published.txt`; `--publish` adds what is new to that. It has a line
for each method, field and enum value, as clients that were built know them. Lines may be added. A field or value may go
if its number and its name are `reserved`; anything else changes what is sent, or its name in somebody's code.

The wire packages are `replog.v1` and `replog.etcd.v1`; the Python modules live in `replog.rpc.v1`, so their imports are
rewritten."""

import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import grpc_tools
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[2]
PROTO = ROOT / "proto"
TARGET = ROOT / "replog" / "rpc" / "v1"
PUBLISHED = PROTO / "published.txt"


def generate() -> dict[str, str]:
    """Return the content of every generated module by file name."""
    with tempfile.TemporaryDirectory() as directory:
        _protoc(PROTO, f"--python_out={directory}", f"--pyi_out={directory}")
        files = {"__init__.py": '"""Generated from proto/ by replog.rpc.generate; do not edit."""\n'}
        for path in sorted(path for path in Path(directory).rglob("*_pb2*")):
            text = re.sub(r"^from replog\.v1 import", "from replog.rpc.v1 import", path.read_text(), flags=re.M)
            files[path.name] = re.sub(r"^ *\w+_FIELD_NUMBER: .*\n", "", text, flags=re.M)  # nobody uses these names
        return files


def contracts(root: Path) -> FileDescriptorSet:
    """Compile the `.proto` files below `root`."""
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory, "contracts")
        _protoc(root, f"--descriptor_set_out={target}")
        return FileDescriptorSet.FromString(target.read_bytes())


def _protoc(root: Path, *arguments: str) -> None:
    include = Path(grpc_tools.__file__).parent / "_proto"
    sources = sorted(str(path.relative_to(root)) for path in root.rglob("*.proto"))
    if protoc.main(["protoc", f"-I{root}", f"-I{include}", *arguments, *sources]) != 0:
        raise SystemExit("protoc failed; the message above says why")


def _check_published(now: FileDescriptorSet) -> None:
    if changed := broken(PUBLISHED.read_text().splitlines(), now):
        raise SystemExit(
            "clients that were built from the published contracts would break; put back, or reserve number and name "
            "of a field or value that is given up:\n" + "\n".join(changed)
        )


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


def main() -> None:
    now = contracts(PROTO)
    if "--publish" in sys.argv[1:]:
        _check_published(now)
        ours = FileDescriptorSet(file=[file for file in now.file if file.package == "replog.v1"])  # etcd's is not ours
        PUBLISHED.write_text("".join(f"{line}\n" for line in lines(ours) if not line.startswith("reserved")))
        return
    wanted = generate()
    if "--check" in sys.argv[1:]:
        stored = {path.name: path.read_text() for path in TARGET.glob("*.py*") if path.is_file()}
        drifted = sorted(name for name in wanted.keys() | stored.keys() if wanted.get(name) != stored.get(name))
        if drifted:
            raise SystemExit(
                f"replog/rpc/v1 differs from proto/ in {', '.join(drifted)}: run 'make generate' and commit"
            )
        _check_published(now)
        return
    TARGET.mkdir(exist_ok=True)
    for path in TARGET.glob("*.py*"):
        path.unlink()
    for name, content in wanted.items():
        (TARGET / name).write_text(content)


if __name__ == "__main__":
    main()
