"""Makes the function that decodes one message in one version: fixed fields at once, all structs inline.

The function checks that each array can lie in what is left of the frame, and counts the memory that its objects may
take; whether everything lay in the frame is checked once, at the end. It raises BadFrame, or what `codec` turns into
it: IndexError, `struct.error`, UnicodeDecodeError."""

from collections.abc import Callable
from struct import calcsize
from typing import Any

from replog.kafka.schema import Field, Struct, structs
from replog.kafka.source import FIXED, VIEWS, Source

_MEMORY = {"bool": 0, "int8": 0, "string": 64, "uuid": 64, "bytes": 200, "records": 200}  # others have 32
_LIST, _TUPLE, _POINTER = 96, 40, 8


def compile_decoder(message: Struct, version: int) -> Callable[[memoryview], Any]:
    source = _Decoder(message, version)
    with source.block("def decode(view):"):
        source.line("data = view" if source.has_views else "data = bytes(view)")
        source.line("size = len(data); at = 0; room = memory(size)")
        value = source.struct(message)
        with source.block("if at > size:"):
            source.line("raise BadFrame(f'it needs {at} bytes; there are {size}')")
        source.line(f"return {value}")
    return source.compiled("decode")


class _Decoder(Source):
    def __init__(self, message: Struct, version: int) -> None:
        super().__init__(message, version)
        self.has_views = any(field.kind in VIEWS for struct in structs(message) for field in struct.fields)

    def struct(self, struct: Struct) -> str:
        """Write what reads it; return the expression for it."""
        values, tagged = [], []
        for field in struct.fields:
            if self.version in field.versions and field.tag is None:
                values.append(self._field(field))
                continue
            values.append(self.default(struct, field))
            if self.version in field.versions:
                name = self.name()
                self.line(f"{name} = {values[-1]}")
                values[-1] = name
                tagged.append((field, name))
        if self.flexible:
            self._tags(tagged)
        self._flush()
        return f"new({self.message_type(struct)}, ({''.join(f'{value}, ' for value in values)}))"

    def _flush(self) -> None:
        if not self.run:
            return
        names, formats = zip(*self.run, strict=True)
        self.run = []
        if formats == ("B",):
            self.line(f"{names[0]} = data[at]; at += 1")
        else:
            unpack, size = self.layout(formats, "unpack_from")
            self.line(f"{', '.join(names)}, = {unpack}(data, at); at += {size}")

    def _field(self, field: Field) -> str:
        name = self.name()
        if field.many or field.kind in ("string", *VIEWS):
            self._sized(field, name)
        elif field.struct is None:
            self.run.append((name, FIXED[field.kind]))
        elif self.version not in field.nullable:
            return self.struct(field.struct)
        else:
            self.run.append((name, "b"))
            self._flush()
            with self.block(f"if {name} < 0:"):
                self.line(f"{name} = None")
            with self.block("else:"):
                self.line(f"{name} = {self.struct(field.struct)}")
        return name

    def _sized(self, field: Field, name: str) -> None:
        size, end = self.name(), self.name()
        text = field.kind == "string" and not field.many
        self.run.append((size, "B" if self.flexible else "h" if text else "i"))
        self._flush()
        if self.flexible or text:
            with self.block(f"if {size} > 127:"):
                if self.flexible:
                    self.line(f"{size}, at = uvarint(data, at - 1)")
                if text:
                    self.line(f"room = long_text({size}, room)")
        with self.block(f"if {size} < {int(self.flexible)}:"):
            self.line(f"{name} = " + ("None" if self.version in field.nullable else f"no_null({field.name!r})"))
        with self.block("else:"):
            if field.many:
                self._array(field, name, f"{size} - {int(self.flexible)}")
                return
            self.line(f"{end} = at + {size} - {int(self.flexible)}")
            text_of = "str({}, 'utf-8')" if self.has_views else "{}.decode()"
            self.line(f"{name} = {(text_of if text else '{}').format(f'data[at:{end}]')}; at = {end}")

    def _array(self, field: Field, name: str, size: str) -> None:
        element, count = field._replace(many=False, nullable=range(0)), self.name()
        least, memory = self._cost(element)
        self.line(f"{count} = {size}; room -= {count} * {_POINTER + memory}")
        with self.block(f"if room < 0 or {count} * {least} > size - at:"):
            self.line(f"too_many({field.name!r}, {count})")
        if field.kind == "uuid":
            self.line(f"{name} = [bytes(data[i : i + 16]) for i in range(at, at + {count} * 16, 16)]")
            self.line(f"at += {count} * 16")
        elif field.kind in FIXED:
            self.line(f"{name} = unpack_from(f'>{{{count}}}{FIXED[field.kind]}', data, at); at += {count} * {least}")
        else:
            self.line(f"{name} = []")
            with self.block(f"for _ in range({count}):"):
                self.line(f"{name}.append({self._field(element)})")

    def _tags(self, tagged: list[tuple[Field, str]]) -> None:
        count, places, after, end = (self.name() for _ in range(4))
        self.run.append((count, "B"))
        self._flush()
        with self.block(f"if {count}:"):
            self.line(f"{places}, at, room = read_tags(data, at - 1, room)")
            for field, name in tagged:
                with self.block(f"if {field.tag} in {places}:"):
                    self.line(f"{after} = at; at, {end} = {places}[{field.tag}]")
                    value = self._field(field._replace(tag=None))
                    self._flush()
                    with self.block(f"if at > {end}:"):
                        self.line(f"raise BadFrame('{field.name} ends behind its end')")
                    self.line(f"{name} = {value}; at = {after}")

    def _cost(self, field: Field) -> tuple[int, int]:
        """Return how many bytes a value has at least in a frame, and about how many of memory, without elements."""
        if self.version not in field.versions or field.tag is not None:
            return 0, 0
        if field.struct is not None and not field.many:
            least, memory = map(sum, zip(*map(self._cost, field.struct.fields), strict=True))
            return least + self.flexible, memory + _TUPLE + _POINTER * len(field.struct.fields)
        if field.kind in FIXED and not field.many:
            return calcsize(FIXED[field.kind]), _MEMORY.get(field.kind, 32)
        least = 1 if self.flexible else 2 if field.kind == "string" and not field.many else 4
        return least, _LIST if field.many else _MEMORY[field.kind]
