"""MkDocs calls `on_files` and `on_page_markdown` while it builds the site; `mkdocs.yml` names this file.

The others map files of the repository to pages, and links between the files to links between the pages. A file that a
document links to gets a page that shows it, so that the link works without a checkout. The reference of the Python API
is made from the docstrings of what `replog.client` exports."""

import ast
import inspect
import posixpath
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import replog.client
from replog.client import Admin, Consumer, ErrorCode, Producer, SyncAdmin, SyncConsumer, SyncProducer, descriptions
from replog.client.blocking import BlockingDelivery

_LANGUAGES = {"": "text", ".js": "javascript", ".proto": "protobuf", ".py": "python", ".service": "ini", ".txt": "text"}
_MADE = {"go.sum", "package-lock.json"}  # tools make these, and nobody reads them
ABOVE = {  # these are not in docs/, which is the site's root
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "tests/scenarios/README.md": "scenarios.md",
}
CONTRACTS = "proto/replog/v1"
MADE = {CONTRACTS: "wire-reference.md", "replog/client": "api.md"}  # a folder's files make the page
PICTURES = (".png", ".svg")
_LINK = re.compile(r"(?<=\]\()([^)#\s]*)(#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
_FOREIGN = re.compile(r"[a-z]+:")
ROOT = Path(__file__).resolve().parents[1]
_CLIENTS: dict[type, type] = {Producer: SyncProducer, Consumer: SyncConsumer, Admin: SyncAdmin}
_OURS = {"transport", "rng", "wall_clock_ms"}  # options for our own tests
_HEAD = """# The Python API

What `replog.client` has, from its docstrings. [Clients](clients.md) shows how to use it.

Blocking clients have the methods of the async ones with the same arguments, without `async`. Their `send` and
`send_many` wait for the outcomes; `send_nowait` and `send_many_nowait` return those to come.
"""
_FIELD = re.compile(r"^ {4}([a-zA-Z]\w*(?:: | = ).*)$", re.M)  # its line in its class, with the comment
Function = ast.FunctionDef | ast.AsyncFunctionDef


def source_page(root: Path, path: str) -> str:
    """Returns Markdown that shows the file at `path`, or all files below it."""
    place = root / path
    files = [place] if place.is_file() else list(_files(place))
    if not files:
        raise ValueError(f"{path}: a document links to it, and there is no file")
    shown = [f"# {path}"]
    for file in files:
        if file != place:
            shown.append(f"## {file.relative_to(place)}")
        shown.append(
            f"`````{_LANGUAGES.get(file.suffix, file.suffix[1:] or 'text')}\n{file.read_text().rstrip()}\n`````"
        )
    return "\n\n".join(shown) + "\n"


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        hidden = any(part.startswith((".", "__pycache__", "node_modules")) for part in inside)
        if path.is_file() and not hidden and path.name not in _MADE:
            yield path


def page_of(path: str) -> str:
    """Returns the page of a file or folder of the repository: a document's own, a picture, or one that shows it."""
    if path in ABOVE:
        return ABOVE[path]
    for folder, page in MADE.items():
        if path.startswith(folder):
            return page
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    shown = f"source/{path.lstrip('.')}"  # MkDocs leaves out what is hidden
    return shown if path.endswith(PICTURES) else f"{shown}.md"


def targets(text: str, path: str) -> set[str]:
    """Returns the files and folders of the repository that the document at `path` links to."""
    names = (match[1] for match in _LINK.finditer(_FENCE.sub("", text)))
    return {_resolve(name, path) for name in names if name and not _FOREIGN.match(name)}


def with_links(text: str, path: str) -> str:
    """Returns the document at `path`, with links from its page to the pages of others."""
    here = posixpath.dirname(page_of(path))

    def turned(link: re.Match[str]) -> str:
        name, anchor = link[1], link[2] or ""
        if not name or _FOREIGN.match(name):
            return link[0]
        return posixpath.relpath(page_of(_resolve(name, path)), here or ".") + anchor

    return _outside_of_code(text, lambda prose: _LINK.sub(turned, prose))


def _resolve(name: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), name))


def _outside_of_code(text: str, change: Callable[[str], str]) -> str:
    parts, end = [], 0
    for code in _FENCE.finditer(text):
        parts += [change(text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, change(text[end:])])


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds pages for files outside of docs/: other documents, the references, and files that documents link to."""
    documents = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    for path, page in ABOVE.items():
        documents.append(path)
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    for page, content in zip(MADE.values(), (source_page(ROOT, CONTRACTS), api_reference()), strict=True):
        files.append(File.generated(config, page, content=content))
    linked = (targets((ROOT / document).read_text(), document) for document in documents)
    for path in sorted(set[str]().union(*linked)):
        page = page_of(path)
        if not page.startswith("source/"):
            continue
        if path.endswith(PICTURES):
            files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
        else:
            files.append(File.generated(config, page, content=source_page(ROOT, path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links between files of the repository into links between pages."""
    if page.file.src_uri.startswith("source/") or page.file.src_uri in MADE.values():
        return markdown
    above = {name: path for path, name in ABOVE.items()}
    return with_links(markdown, above.get(page.file.src_uri, f"docs/{page.file.src_uri}"))


# -- the Python API


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
