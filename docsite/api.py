"""The reference of the Python API, from the docstrings of what `replog.client` exports."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import replog.client
from replog.client import Admin, Consumer, ErrorCode, Producer, SyncAdmin, SyncConsumer, SyncProducer, descriptions
from replog.client.blocking import BlockingDelivery

_CLIENTS: dict[type, type] = {Producer: SyncProducer, Consumer: SyncConsumer, Admin: SyncAdmin}
_OURS = {"transport", "rng", "wall_clock_ms"}  # options for our own tests
_HEAD = """# The Python API

What `replog.client` has, from its docstrings. [Clients](clients.md) shows how to use it.

Blocking clients have the methods of the async ones with the same arguments, without `async`. Their `send` and
`send_many` wait for the outcomes; `send_nowait` and `send_many_nowait` return those to come.
"""
_FIELD = re.compile(r"^ {4}([a-zA-Z]\w*(?:: | = ).*)$", re.M)  # its line in its class, with the comment
Function = ast.FunctionDef | ast.AsyncFunctionDef


def api_reference() -> str:
    """Returns Markdown."""
    kinds = {getattr(replog.client, name) for name in replog.client.__all__}
    errors = {kind for kind in kinds if issubclass(kind, Exception)}
    values = {BlockingDelivery, *kinds} - {*_CLIENTS, *_CLIENTS.values(), *errors, ErrorCode}
    values |= {kind for kind in vars(descriptions).values() if getattr(kind, "__module__", "") == descriptions.__name__}
    parts = [_HEAD]
    for client, blocking in _CLIENTS.items():
        parts += _section(f"{client.__name__} and {blocking.__name__}", client)
        own = (name for name in vars(blocking) if name not in dir(client) and name[0] != "_")
        parts += [_code(getattr(blocking, name), name) for name in own]
    codes = "`ErrorCode` has Kafka's names; [the wire](wire.md#errors) says what each asks for.\n"
    for title, listed in (("## Values\n", values), (f"## Errors\n\n{codes}", errors)):
        parts.append(title)
        for kind in sorted(listed, key=lambda kind: kind.__name__):
            parts += _section(kind.__name__, kind, "###")
    return "\n".join(parts)


def _section(title: str, kind: type, level: str = "##") -> Iterator[str]:
    yield f"{level} {title}\n"
    doc = kind.__doc__ or ""
    if not doc.startswith(f"{kind.__name__}("):  # dataclasses and named tuples write that by themselves
        yield f"{inspect.cleandoc(doc)}\n"
    if kind in _CLIENTS:
        yield _code(inspect.getattr_static(kind, "__init__"), kind.__name__)
    elif not issubclass(kind, Exception) and (fields := _FIELD.findall(inspect.getsource(kind))):
        yield "\n".join(("```python", *fields, "```\n"))
    ours = kind.__mro__[:1] if issubclass(kind, Exception) else kind.__mro__
    for name in dict.fromkeys(name for each in ours for name in vars(each) if name[0] != "_"):
        yield from _method(inspect.getattr_static(kind, name))


def _method(member: Any) -> Iterator[str]:
    function = getattr(member, "fget", member)
    if inspect.isfunction(function) and function.__module__.startswith("replog."):
        yield _code(function, function.__name__, is_property=function is not member)
        yield f"{inspect.cleandoc(function.__doc__)}\n" if function.__doc__ else ""


def _code(function: Any, name: str, is_property: bool = False) -> str:
    """Shows how the function is called."""
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(made, Function)
    given = made.args
    pairs = [p for p in zip(given.kwonlyargs, given.kw_defaults, strict=True) if p[0].arg not in _OURS]
    given.kwonlyargs, given.kw_defaults = [argument for argument, _ in pairs], [default for _, default in pairs]
    arguments = ast.unparse(given).removeprefix("self").removeprefix(", ")
    returns = "" if made.name == "__init__" or made.returns is None else f" -> {ast.unparse(made.returns)}"
    if len(name + arguments + returns) > 110:
        arguments = "\n    " + re.sub(r", (?=\w+:|\*)", ",\n    ", arguments) + "\n"
    called = "" if is_property else f"({arguments})"
    return f"```python\n{'async ' * isinstance(made, ast.AsyncFunctionDef)}{name}{called}{returns}\n```\n"
