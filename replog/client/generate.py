"""Generate `replog/client/sync.py`, the blocking clients, from the async ones; `--check` fails if it differs.

Each public method waits for the async one of its name. `send` and `send_many` wait for the outcomes, too; `send_nowait`
and `send_many_nowait` do not."""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent  # the package cannot be imported while the blocking clients are missing or wrong
TARGET = HERE / "sync.py"
ADMIN = ("admin.calls", "admin.topics", "admin.partitions", "admin.brokers")
SOURCES = {"Producer": ("producing.producer",), "Consumer": ("consuming.consumer",), "Admin": ADMIN}
HEAD = (
    '"""The clients for scripts without an event loop. Made by `make generate` from the async ones: do not edit."""\n'
)
LEFT_OUT = {"start", "send_and_wait", "fetch_decoded", "rng", "wall_clock_ms"}
TWINS = {  # methods that need their own code: name, what it returns, what it does
    "send": (
        ("send", "RecordMetadata", "self._run(lambda: self._client.send_and_wait({}))"),
        ("send_nowait", "BlockingDelivery", "BlockingDelivery(self, self._run(lambda: self._client.send({})))"),
    ),
    "send_many": (
        ("send_many", "list[RecordMetadata]", "self._run(lambda: outcomes(self._client.send_many({})))"),
        (
            "send_many_nowait",
            "list[BlockingDelivery]",
            "[BlockingDelivery(self, sent) for sent in self._run(lambda: self._client.send_many({}))]",
        ),
    ),
    "fetch": (("fetch", "list[Record[K, V]]", "self._run(lambda: self._client.fetch({}), self._client.give_back)"),),
    "fetch_many": (
        ("fetch_many", "list[Record[K, V]]", "self._run(lambda: self._client.fetch_many({}), self._client.give_back)"),
    ),
    "close": (("close", "None", "self._close(lambda: self._client.close({}))"),),
    "__aiter__": (("__iter__", "Iterator[Record[K, V]]", "self._forever(lambda: self.fetch(max_records=1))"),),
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def twins(name: str, known: dict[str, str]) -> Iterator[str]:
    """Yields the lines of a client's class. `known` gets the module of each name that they may use."""
    methods: dict[str, Function] = {}
    for source in SOURCES[name]:
        for node in ast.parse((HERE / f"{source.replace('.', '/')}.py").read_text()).body:
            if isinstance(node, ast.ImportFrom):
                known |= {imported.name: node.module or "" for imported in node.names}
            elif isinstance(node, ast.ClassDef):
                methods |= {each.name: each for each in node.body if isinstance(each, Function)}
            elif isinstance(node, ast.Assign):
                names = (target.id for target in node.targets if isinstance(target, ast.Name))
                known |= dict.fromkeys(names, f"replog.client.{source}")
    known[name] = "replog.client.admin" if name == "Admin" else f"replog.client.{SOURCES[name][0]}"
    of, generic = (name, "") if name == "Admin" else (f"{name}[K, V]", ", Generic[K, V]")
    yield f"class Sync{name}(Blocking[{of}]{generic}, of={name}):"
    yield from _twin(methods["__init__"], "__init__", "None", f"super().__init__(lambda: {name}({{}}))")
    for each, made in methods.items():
        if (each.startswith("_") and each not in TWINS) or each in LEFT_OUT:
            continue
        how, call = ("_run" if isinstance(made, ast.AsyncFunctionDef) else "_call"), f"self._client.{each}({{}})"
        if made.decorator_list:
            yield "    @property"
            call = f"self._client.{each}"
        assert made.returns is not None
        for twin in TWINS.get(each, ((each, ast.unparse(made.returns), f"self.{how}(lambda: {call})"),)):
            yield from _twin(made, *twin)


def _twin(made: Function, name: str, returns: str, does: str) -> Iterator[str]:
    given = made.args
    pairs = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    kept = [pair for pair in pairs if pair[0].arg not in LEFT_OUT]
    given.kwonlyargs, given.kw_defaults = [argument for argument, _ in kept], [default for _, default in kept]
    passed = [argument.arg for argument in given.args[1:]] + ([f"*{given.vararg.arg}"] if given.vararg else [])
    passed += [f"{argument.arg}={argument.arg}" for argument in given.kwonlyargs]
    yield f"    def {name}({ast.unparse(given)}) -> {returns}:"
    yield f"        {'' if returns == 'None' else 'return '}{does.format(', '.join(passed))}"


def generate() -> str:
    known = dict.fromkeys(("Blocking", "BlockingDelivery", "outcomes"), "replog.client.blocking")
    known |= {"Iterator": "collections.abc", "Generic": "typing", "Record": "replog.client.records"}
    body = "\n\n\n".join("\n".join(twins(client, known)) for client in SOURCES)
    modules: dict[str, list[str]] = defaultdict(list)
    for name in sorted({*re.findall(r"\b(?:[A-Z]\w*|outcomes)\b", body)} & known.keys()):
        modules[known[name]].append(name)
    imports = [f"from {module} import {', '.join(names)}" for module, names in sorted(modules.items())]
    return "\n".join((HEAD, *imports, "", "", body, ""))


def main() -> None:
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(generate())
    elif TARGET.read_text() != generate():
        raise SystemExit("replog/client/sync.py differs from the async clients: run 'make generate' and commit")


if __name__ == "__main__":
    main()
