"""Makes the function that encodes one message in one version into pieces: fixed fields at once, all structs inline."""

from collections.abc import Callable
from struct import pack
from typing import Any

from replog.kafka import primitives
from replog.kafka.layout import FIXED, VIEWS, Source
from replog.kafka.schema import Field, Struct
from replog.log.formats.varint import unsigned
from replog.log.offsets import Buffer


def compile_encoder(message: Struct, version: int) -> Callable[[Any], list[Buffer]]:
    encoder = _Encoder(message, version)
    source = encoder.source
    with source.block("def encode(value):"):
        source.line("out = []; add = out.append; large = []")
        encoder.struct(message, "value")
        encoder.flush()
        source.line("return gather(out, large)" if source.views else "return [b''.join(out)]")
    encoder.writers_of_tags()
    return source.compiled("encode")


class _Encoder:
    def __init__(self, message: Struct, version: int) -> None:
        tools = {name: getattr(primitives, name) for name in ("pieces", "put", "gather", "tags", "BYTES")}
        self.source = Source(message, version, pack=pack, unsigned=unsigned, **tools)
        self._version = version
        self._run: list[tuple[str, str]] = []  # these are written next, with one layout
        self._writers: dict[str, Field] = {}  # these fields have tags; by their functions

    def struct(self, struct: Struct, value: str) -> None:
        names = [self.source.name() if self._version in field.versions else "_" for field in struct.fields]
        if names:
            self.source.line(f"{', '.join(names)}, = {value}")
        tagged = []
        for field, name in zip(struct.fields, names, strict=True):
            if name != "_" and field.tag is None:
                self._field(field, name)
            elif name != "_":
                tagged.append((field, name))
        if self.source.flexible:
            self._tags(struct, tagged)

    def writers_of_tags(self) -> None:
        """Write a function for each field that has a tag: its bytes' number comes before them."""
        while self._writers:
            name, field = self._writers.popitem()
            with self.source.block(f"def {name}(value):"):
                self.source.line("out = []; add = out.append; large = []")
                self._field(field, "value")
                self.flush()
                self.source.line("return b''.join(out)")

    def flush(self, *more: tuple[str, str]) -> None:
        """Write what writes the fields at hand, and `more`."""
        run, self._run = [*self._run, *more], []
        if not run:
            return
        values, formats = zip(*run, strict=True)
        if formats == ("B",):
            self.source.line(f"add(BYTES[{values[0]}])")
        else:
            self.source.line(f"add({self.source.layout(formats, 'pack')[0]}({', '.join(values)}))")

    def _either(self, condition: str, short: tuple[str, str], long: str) -> None:
        """Write the fields at hand, then `short` if the condition holds, or else what the line `long` adds."""
        run = self._run
        with self.source.block(f"if {condition}:"):
            self.flush(short)
        self._run = run
        with self.source.block("else:"):
            self.flush()
            self.source.line(long)

    def _length(self, count: str, kind: str) -> None:
        """Write a length, which is -1 for null."""
        if self.source.flexible:
            self._either(f"{count} < 127", (f"{count} + 1", "B"), f"add(unsigned({count} + 1))")
        else:
            self.flush((count, kind))

    def _field(self, field: Field, name: str) -> None:
        line, count = self.source.line, self.source.name()
        null = -1 if self._version in field.nullable else 0
        if field.many:
            line(f"{count} = {f'{null} if {name} is None else ' if field.nullable else ''}len({name})")
            self._length(count, "i")
            self._elements(field, name)
        elif field.kind == "string":
            data = self.source.name()
            line(
                f"{data} = {f'b_ if {name} is None else ' if field.nullable else ''}{name}.encode()".replace(
                    "b_", "b''"
                )
            )
            line(f"{count} = {f'{null} if {name} is None else ' if field.nullable else ''}len({data})")
            self._length(count, "h")
            line(f"add({data})")
        elif field.kind in VIEWS:
            parts = self.source.name()
            line(f"{parts}, {count} = pieces({name})")
            if not null:
                line(f"{count} = max({count}, 0)")
            self._length(count, "i")
            line(f"put(out, large, {parts})")
        elif field.struct is None:
            self._run.append((name, FIXED[field.kind]))
        elif not null:
            self.struct(field.struct, name)
        else:
            self._struct_or_null(field.struct, name)

    def _struct_or_null(self, struct: Struct, name: str) -> None:
        run = self._run
        with self.source.block(f"if {name} is None:"):
            self.flush(("-1", "b"))
        self._run = [*run, ("1", "b")]
        with self.source.block("else:"):
            self.struct(struct, name)
            self.flush()

    def _elements(self, field: Field, name: str) -> None:
        if field.kind == "uuid":
            self.source.line(f"out += {name} or ()")
        elif field.kind in FIXED:
            with self.source.block(f"if {name}:"):
                self.source.line(f"add(pack(f'>{{len({name})}}{FIXED[field.kind]}', *{name}))")
        else:
            element = self.source.name()
            with self.source.block(f"for {element} in {name}{' or ()' if field.nullable else ''}:"):
                self._field(field._replace(many=False, nullable=range(0)), element)
                self.flush()

    def _tags(self, struct: Struct, tagged: list[tuple[Field, str]]) -> None:
        if not tagged:
            self._run.append(("0", "B"))
            return
        conditions, fields = [], []
        for field, name in tagged:
            default = self.source.default(struct, field)
            condition = f"not {name}" if field.many else f"({name} is {default} or {name} == {default})"
            writer = f"write_{struct.name}_{field.name}"
            self._writers[writer] = field._replace(tag=None)
            conditions.append(condition)
            fields.append(f"({field.tag}, None if {condition} else {writer}({name}))")
        self._either(" and ".join(conditions), ("0", "B"), f"add(tags({', '.join(fields)}))")
