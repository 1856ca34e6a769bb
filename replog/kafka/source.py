"""The codec's functions are written by programs, which collect lines of Python here."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct as Layout
from typing import Any

from replog.kafka import messages, primitives
from replog.kafka.schema import Field, Struct

FIXED = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q"}
FIXED |= {"float64": "d", "uuid": "16s"}  # kinds that always have the same size, as `struct` names them
VIEWS = ("bytes", "records")


class Source:
    """Lines of functions for one message in one version, and the objects that they use, all of `primitives` too."""

    def __init__(self, message: Struct, version: int) -> None:
        self.message = message
        self.version = version
        self.flexible = version in message.flexible
        self.run: list[tuple[str, str]] = []  # variables or values that come next, to be read or written at once
        self._lines: list[str] = []
        self._indent = ""
        self._names = 0
        self._objects: dict[str, Any] = dict(vars(primitives))

    def line(self, text: str) -> None:
        self._lines.append(f"{self._indent}{text}\n")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indent what is written within, below `head`."""
        self.line(head)
        self._indent += " "
        yield
        self._indent = self._indent[:-1]

    def name(self) -> str:
        """Return a name that no variable has."""
        self._names += 1
        return f"v{self._names}"

    def use(self, name: str, thing: object) -> str:
        """Return `name`, by which the lines may use `thing`."""
        self._objects[name] = thing
        return name

    def message_type(self, struct: Struct) -> str:
        return self.use(struct.name, getattr(messages, struct.name))

    def default(self, struct: Struct, field: Field) -> str:
        return self.use(f"{struct.name}_{field.name}", getattr(getattr(messages, struct.name)(), field.name))

    def layout(self, formats: tuple[str, ...], method: str) -> tuple[str, int]:
        """Return the name of a layout's `pack` or `unpack_from`, and its size."""
        layout = Layout(">" + "".join(formats))
        return self.use(f"{method}_{''.join(formats).replace('?', 'o')}", getattr(layout, method)), layout.size

    def compiled(self, function: str) -> Callable[..., Any]:
        code = compile("".join(self._lines), f"<{function} {self.message.name} {self.version}>", "exec")
        exec(code, self._objects)
        return self._objects[function]  # type: ignore[no-any-return]
