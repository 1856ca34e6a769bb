"""Makes the function that encodes one message in one version into pieces: fixed fields at once, all structs inline."""

from collections.abc import Callable
from typing import Any

from replog.kafka.schema import Field, Struct
from replog.kafka.source import FIXED, VIEWS, Source
from replog.log.offsets import Buffer

_BEGIN = "out = []; add = out.append; large = []"


def compile_encoder(message: Struct, version: int) -> Callable[[Any], list[Buffer]]:
    source = _Encoder(message, version)
    with source.block("def encode(value):"):
        source.line(_BEGIN)
        source.struct(message, "value")
        source.flush()
        source.line("return gather(out, large)")
    source.writers_of_tags()
    return source.compiled("encode")


class _Encoder(Source):
    def __init__(self, message: Struct, version: int) -> None:
        super().__init__(message, version)
        self._writers: dict[str, Field] = {}  # these fields have tags; by their functions

    def struct(self, struct: Struct, value: str) -> None:
        names = [self.name() if self.version in field.versions else "_" for field in struct.fields]
        if names:
            self.line(f"{', '.join(names)}, = {value}")
        given = [(field, name) for field, name in zip(struct.fields, names, strict=True) if name != "_"]
        for field, name in given:
            if field.tag is None:
                self._field(field, name)
        if self.flexible:
            self._tags(struct, [(field, name) for field, name in given if field.tag is not None])

    def writers_of_tags(self) -> None:
        """Write a function for each field that has a tag: the length of its bytes comes before them."""
        while self._writers:
            name, field = self._writers.popitem()
            with self.block(f"def {name}(value):"):
                self.line(_BEGIN)
                self._field(field._replace(tag=None), "value")
                self.flush()
                self.line("return b''.join(out)")

    def flush(self, *more: tuple[str, str]) -> None:
        """Write what writes the fields at hand, and `more`."""
        run, self.run = [*self.run, *more], []
        if run:
            values, formats = zip(*run, strict=True)
            if formats == ("B",):
                self.line(f"add(BYTES[{values[0]}])")
            else:
                self.line(f"add({self.layout(formats, 'pack')[0]}({', '.join(values)}))")

    def _either(self, condition: str, byte: str, other: str) -> None:
        """Write the fields at hand, then a byte if the condition holds, or else what `other` is."""
        run = self.run
        with self.block(f"if {condition}:"):
            self.flush((byte, "B"))
        self.run = run
        with self.block("else:"):
            self.flush()
            self.line(f"add({other})")

    def _length(self, of: str, field: Field, name: str, kind: str) -> None:
        count, null = self.name(), -1 if self.version in field.nullable else 0
        self.line(f"{count} = {f'{null} if {name} is None else ' if field.nullable else ''}len({of})")
        if self.flexible:
            self._either(f"{count} < 127", f"{count} + 1", f"unsigned({count} + 1)")
        else:
            self.flush((count, kind))

    def _field(self, field: Field, name: str) -> None:
        if field.many:
            self._length(name, field, name, "i")
            self._elements(field, name)
        elif field.kind == "string":
            data = self.name()
            self.line(f"{data} = " + f'b"" if {name} is None else ' * bool(field.nullable) + f"{name}.encode()")
            self._length(data, field, name, "h")
            self.line(f"add({data})")
        elif field.kind in VIEWS:
            self.flush()
            self.line(f"put(out, large, {name}, {self.flexible})")
        elif field.struct is None:
            self.run.append((name, FIXED[field.kind]))
        elif self.version not in field.nullable:
            self.struct(field.struct, name)
        else:
            self.flush()
            with self.block(f"if {name} is None:"):
                self.flush(("-1", "b"))
            with self.block("else:"):
                self.flush(("1", "b"))
                self.struct(field.struct, name)
                self.flush()

    def _elements(self, field: Field, name: str) -> None:
        if field.kind == "uuid":
            self.line(f"out += {name} or ()")
        elif field.kind in FIXED:
            with self.block(f"if {name}:"):
                self.line(f"add(pack(f'>{{len({name})}}{FIXED[field.kind]}', *{name}))")
        else:
            element = self.name()
            with self.block(f"for {element} in {name} or ():"):
                self._field(field._replace(many=False, nullable=range(0)), element)
                self.flush()

    def _tags(self, struct: Struct, tagged: list[tuple[Field, str]]) -> None:
        if not tagged:
            self.run.append(("0", "B"))
            return
        conditions, contents = [], []
        for field, name in tagged:
            default = self.default(struct, field)
            conditions.append(f"not {name}" if field.many else f"({name} is {default} or {name} == {default})")
            writer = f"write_{struct.name}_{field.name}"
            self._writers[writer] = field
            contents.append(f"({field.tag}, None if {conditions[-1]} else {writer}({name}))")
        self._either(" and ".join(conditions), "0", f"tags({', '.join(contents)})")
