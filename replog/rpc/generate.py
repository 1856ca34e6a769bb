"""Generate `replog/rpc/v1` from `proto/replog/v1`; with `--check`, say instead whether it has drifted.

The wire package is `replog.v1`; the Python modules live in `replog.rpc.v1`, so their imports are rewritten.
"""

import re
import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[2]
PROTO = ROOT / "proto"
TARGET = ROOT / "replog" / "rpc" / "v1"


def generate() -> dict[str, str]:
    """File name to content of every generated module."""
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.glob("replog/v1/*.proto"))
    with tempfile.TemporaryDirectory() as directory:
        include = Path(grpc_tools.__file__).parent / "_proto"
        arguments = [
            "protoc",
            f"-I{PROTO}",
            f"-I{include}",
            f"--python_out={directory}",
            f"--pyi_out={directory}",
        ]
        if protoc.main([*arguments, *sources]) != 0:
            raise SystemExit("protoc failed; the message above says why")
        files = {"__init__.py": '"""Generated from proto/replog/v1 by replog.rpc.generate; do not edit."""\n'}
        for path in sorted(Path(directory, "replog", "v1").iterdir()):
            text = re.sub(r"^from replog\.v1 import", "from replog.rpc.v1 import", path.read_text(), flags=re.M)
            files[path.name] = re.sub(r"^ *\w+_FIELD_NUMBER: .*\n", "", text, flags=re.M)  # nobody names a field by it
        return files


def main() -> None:
    wanted = generate()
    if "--check" in sys.argv[1:]:
        stored = {path.name: path.read_text() for path in TARGET.glob("*.py*") if path.is_file()}
        drifted = sorted(name for name in wanted.keys() | stored.keys() if wanted.get(name) != stored.get(name))
        if drifted:
            raise SystemExit(f"replog/rpc/v1 differs from proto/ in {', '.join(drifted)}: run 'make proto' and commit")
        return
    TARGET.mkdir(exist_ok=True)
    for path in TARGET.glob("*.py*"):
        path.unlink()
    for name, content in wanted.items():
        (TARGET / name).write_text(content)


if __name__ == "__main__":
    main()
