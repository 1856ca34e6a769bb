"""Kafka's message schemas in our notation, made from the jar of its clients: facts alone, none of its text.

`python -m tests.interop.kafka_schemas` writes `replog/kafka/schemas`, one file for each API that is served. A line is a
field: name, type, versions unless all, `null` with the versions that take null, `tag` with its number, `=` with a
default. A struct's fields are indented below it. A message's line has its name, its API's number, and from which
version it is flexible.
"""

import json
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from replog.kafka.schema import SCHEMAS
from replog.kafka.versions import APIS
from tests.interop.kafka import VERSION, cache_directory

_ZERO = {"0", "", "false", "null"}


def schemas(jar: Path) -> dict[str, str]:
    """Each file of `replog/kafka/schemas` by its name, as it should be."""
    with zipfile.ZipFile(jar) as files:
        return {
            f"{api.name}.txt": "".join(
                f"{line}\n" for side in ("Request", "Response") for line in _message(_read(files, api.name + side))
            )
            for api in APIS.values()
        }


def newest_version(jar: Path, name: str) -> int:
    with zipfile.ZipFile(jar) as files:
        return int(_read(files, name)["validVersions"].rpartition("-")[2])


def _read(files: zipfile.ZipFile, name: str) -> dict[str, Any]:
    text = files.read(f"common/message/{name}.json").decode()
    schema: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$|\s//\s.*$", "", text, flags=re.M))
    return schema


def _message(schema: Mapping[str, Any]) -> Iterator[str]:
    shared = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}
    yield f"{schema['name']} {schema['apiKey']} flexible {schema['flexibleVersions']}"
    for field in schema["fields"]:
        yield from _field(field, shared, "  ")


def _field(field: Mapping[str, Any], shared: Mapping[str, Any], indent: str) -> Iterator[str]:
    kind, default, fields = field["type"], str(field.get("default", "")).lower(), field.get("fields")
    fields = fields or shared.get(kind.removeprefix("[]"))
    words = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", field["name"]).lower()]
    words.append(("[]" if kind.startswith("[]") else "") + "struct" if fields else kind)
    if field["versions"] != "0+":
        words.append(field["versions"])
    if "nullableVersions" in field:
        words += ["null", field["nullableVersions"]]
    if "tag" in field:
        assert field["taggedVersions"] == field["versions"], f"{field['name']} has a tag in some versions only"
        assert "nullableVersions" not in field or default == "null", f"{field['name']} may be null and has a default"
        words += ["tag", str(field["tag"])]
    assert "flexibleVersions" not in field
    if default not in _ZERO:
        words += ["=", default.title() if default in ("true", "false") else str(int(default, 0))]
    yield indent + " ".join(words)
    for each in fields or ():
        yield from _field(each, shared, indent + "  ")


if __name__ == "__main__":
    jar = Path(sys.argv[1]) if sys.argv[1:] else cache_directory() / f"kafka-clients-{VERSION}.jar"
    for path in SCHEMAS.glob("*.txt"):
        path.unlink()
    for name, text in schemas(jar).items():
        (SCHEMAS / name).write_text(text)
