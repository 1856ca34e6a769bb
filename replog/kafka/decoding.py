"""Makes the function that decodes one message in one version: fixed fields at once, all structs inline.

The function checks that each array can lie in what is left of the frame, and counts the memory that its objects may
take; whether everything lay in the frame is checked once, at the end. It raises BadFrame, or what `codec` turns into
it: IndexError, `struct.error`, UnicodeDecodeError."""

from collections.abc import Callable
from struct import calcsize, unpack_from
from typing import Any

from replog.kafka import primitives
from replog.kafka.errors import BadFrame
from replog.kafka.layout import FIXED, VIEWS, Source
from replog.kafka.schema import Field, Struct

_TUPLE, _POINTER, _LIST = 40, 8, 96
_MEMORY = {"bool": 0, "int8": 0, "string": 64, "uuid": 64, "bytes": 200, "records": 200}  # others have 32


def compile_decoder(message: Struct, version: int) -> Callable[[memoryview], Any]:
    decoder = _Decoder(message, version)
    source = decoder.source
    with source.block("def decode(view):"):
        source.line("data = view" if source.views else "data = bytes(view)")
        source.line("size = len(data); at = 0; room = memory(size)")
        value = decoder.struct(message)
        with source.block("if at > size:"):
            source.line("raise BadFrame(f'it needs {at} bytes; there are {size}')")
        source.line(f"return {value}")
    return source.compiled("decode")


class _Decoder:
    def __init__(self, message: Struct, version: int) -> None:
        names = ("memory", "uvarint", "long_text", "skip_tags", "no_null", "too_much")
        tools = {name: getattr(primitives, name) for name in names}
        self.source = Source(message, version, BadFrame=BadFrame, unpack_from=unpack_from, new=tuple.__new__, **tools)
        self._version = version
        self._run: list[tuple[str, str]] = []  # variables that are read next, with one layout

    def struct(self, struct: Struct) -> str:
        """Write what reads it; return the expression for it."""
        values, tagged = [], []
        for field in struct.fields:
            if self._version not in field.versions:
                values.append(self.source.default(struct, field))
            elif field.tag is None:
                values.append(self._field(field))
            else:
                values.append(self.source.name())
                self.source.line(f"{values[-1]} = {self.source.default(struct, field)}")
                tagged.append((field, values[-1]))
        if self.source.flexible:
            self._tags(tagged)
        self._flush()
        return f"new({self.source.message_type(struct)}, ({''.join(f'{value}, ' for value in values)}))"

    def _flush(self) -> None:
        if not self._run:
            return
        names, formats = zip(*self._run, strict=True)
        self._run = []
        if formats == ("B",):
            self.source.line(f"{names[0]} = data[at]; at += 1")
        else:
            unpack, size = self.source.layout(formats, "unpack_from")
            self.source.line(f"{', '.join(names)}, = {unpack}(data, at); at += {size}")

    def _field(self, field: Field) -> str:
        name = self.source.name()
        if field.many or field.kind in ("string", *VIEWS):
            self._sized(field, name)
        elif field.struct is None:
            self._run.append((name, FIXED[field.kind]))
        elif self._version not in field.nullable:
            return self.struct(field.struct)
        else:
            self._run.append((name, "b"))
            self._flush()
            with self.source.block(f"if {name} < 0:"):
                self.source.line(f"{name} = None")
            with self.source.block("else:"):
                self.source.line(f"{name} = {self.struct(field.struct)}")
        return name

    def _sized(self, field: Field, name: str) -> None:
        line, block, size, end = self.source.line, self.source.block, self.source.name(), self.source.name()
        text, compact = field.kind == "string" and not field.many, self.source.flexible
        self._run.append((size, "B" if compact else "h" if text else "i"))
        self._flush()
        if compact or text:
            with block(f"if {size} > 127:"):
                if compact:
                    line(f"{size}, at = uvarint(data, at - 1)")
                if text:
                    line(f"room = long_text({size}, room)")
        with block(f"if {size} < {1 if compact else 0}:"):
            line(f"{name} = " + ("None" if self._version in field.nullable else f"no_null({field.name!r})"))
        with block("else:"):
            if field.many:
                if compact:
                    line(f"{size} -= 1")
                self._array(field, name, size)
            else:
                view = "data[at:{}]" if field.kind in VIEWS else "str(data[at:{}], 'utf-8')"
                view = view if self.source.views else "data[at:{}].decode()"
                line(f"{end} = at + {size}{' - 1' if compact else ''}")
                line(f"{name} = {view.format(end)}; at = {end}")

    def _array(self, field: Field, name: str, count: str) -> None:
        line, block = self.source.line, self.source.block
        element = field._replace(many=False, nullable=range(0))
        line(f"room -= {count} * {_POINTER + self._memory(element)}")
        with block(f"if room < 0 or {count} * {self._least(element)} > size - at:"):
            line(f"too_much({field.name!r}, {count})")
        if field.kind == "uuid":
            line(f"{name} = [bytes(data[i : i + 16]) for i in range(at, at + {count} * 16, 16)]; at += {count} * 16")
        elif field.kind in FIXED:
            kind = FIXED[field.kind]
            line(f"{name} = unpack_from(f'>{{{count}}}{kind}', data, at) if {count} else ()")
            line(f"at += {count} * {calcsize(kind)}")
        else:
            line(f"{name} = []")
            with block(f"for _ in range({count}):"):
                line(f"{name}.append({self._field(element)})")

    def _tags(self, tagged: list[tuple[Field, str]]) -> None:
        line, block, count = self.source.line, self.source.block, self.source.name()
        self._run.append((count, "B"))
        self._flush()
        with block(f"if {count}:"):
            if not tagged:
                line("at, room = skip_tags(data, at - 1, room)")
                return
            tag, end = self.source.name(), self.source.name()
            line(f"{count}, at = uvarint(data, at - 1)")
            most = max(self._memory(field._replace(tag=None)) for field, _ in tagged)
            line(f"room -= {count} * {primitives.TAG_COST + most}")
            with block("if room < 0:"):
                line(f"too_much('tags', {count})")
            with block(f"for _ in range({count}):"):
                line(f"{tag}, at = uvarint(data, at)")
                line(f"{end}, at = uvarint(data, at); {end} += at")
                for field, name in tagged:
                    with block(f"if {tag} == {field.tag}:"):
                        value = self._field(field._replace(tag=None))
                        self._flush()
                        line(f"{name} = {value}")
                with block(f"if at > {end}:"):
                    line(f"raise BadFrame(f'tag {{{tag}}} ends behind its end')")
                line(f"at = {end}")

    def _memory(self, field: Field) -> int:
        """Return about how much memory a value takes, apart from the elements of an array."""
        if self._version not in field.versions or field.tag is not None:
            return 0
        if field.many:
            return _LIST
        if field.struct is None:
            return _MEMORY.get(field.kind, 32)
        fields = field.struct.fields
        return _TUPLE + _POINTER * len(fields) + sum(map(self._memory, fields))

    def _least(self, field: Field) -> int:
        """Return how many bytes of a frame a value has at least."""
        if self._version not in field.versions or field.tag is not None:
            return 0
        if field.struct is not None and not field.many:
            return sum(map(self._least, field.struct.fields)) + self.source.flexible
        if field.kind in FIXED and not field.many:
            return calcsize(FIXED[field.kind])
        return 1 if self.source.flexible else 2 if field.kind == "string" and not field.many else 4
